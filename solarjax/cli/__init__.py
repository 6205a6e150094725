"""The command line: one small module per subcommand; each imports what it needs when it runs."""
