"""The papers' tables and figures as recipes, and the results of running one of them."""
