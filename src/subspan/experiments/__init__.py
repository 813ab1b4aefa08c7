"""Experiments: how sessions follow one another and what is measured after each."""
