"""The laboratory of imitated models: every task and every method under replies as real models write them."""
