"""Services for the rest of the package: arrays, validation, devices, parallel execution, processes and files."""
