"""What several learners share."""
