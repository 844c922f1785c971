"""What everything stands on: arrays, validation, devices, parallel rows, processes, files. Knows no mathematics."""
