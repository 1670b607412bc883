"""Views, copies, joins and splits."""
