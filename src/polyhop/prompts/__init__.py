"""Every prompt a visible text file: ``files/TASK.md``, its demonstrations beside it in ``files/TASK.demos.jsonl``."""
