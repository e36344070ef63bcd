"""What is kept: files, logs, histories and the redactor, with one owner a path."""
