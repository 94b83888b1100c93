"""The papers' tables and figures as recipes, and what running one of them here comes to."""
