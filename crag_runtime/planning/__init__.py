"""From a question, and the turns before it, to what is looked for; and other words when that finds too little."""
