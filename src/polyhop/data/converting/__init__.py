"""Documents as blocks of text: PDF, DOCX, HTML, EPUB, Markdown and plain text."""
