"""Documents in other people's formats as blocks of text: PDF, DOCX, HTML, EPUB; plain text and Markdown too."""
