"""The methods the five papers compare with: one small file each, or a family file where they differ by a prompt."""
