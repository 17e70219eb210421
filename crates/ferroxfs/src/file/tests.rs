mod contents;
mod flusher;
