"""Converts HTML, PDF, Word documents, EPUB books and notebooks to text, in a child process that can be killed."""
