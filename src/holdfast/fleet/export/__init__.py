"""The facts of nodes, brought into the PostgreSQL of the ledger: each once, whoever dies."""
