"""What `quarkfast demo` shows: a small trained model, its images, and every preset tried on it."""
