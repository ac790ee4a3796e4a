// Scripts of the console. Every page works without them.
