"""Questions that a run asks about the robot, their pictures, and the page that shows them."""
