"""The verbs of the command line and their options, a file for each group; what they do stands beside this room.

A verb imports what it needs when it is called, so that help is quick.
"""
