"""What tests share: models, runs of models, and facts about the machine."""
