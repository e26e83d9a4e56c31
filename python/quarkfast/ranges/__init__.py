"""Range estimation: from the statistics of a tensor to the range worth keeping, one method a row."""
