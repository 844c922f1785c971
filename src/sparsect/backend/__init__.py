"""Foundations without mathematics: arrays, validation, devices, parallel rows, processes and files."""
