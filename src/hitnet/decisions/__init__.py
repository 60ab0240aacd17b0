"""What people decide on images: steps, who decided what, agreement, files of decisions, and the corrected data."""
