"""What people read: tables, figures, JSON and one self-contained HTML page, all made from protocol results."""
