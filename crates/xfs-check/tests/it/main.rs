//! Tests of the checker on whole volumes.

mod causes;
mod damage;
mod golden;
mod promises;
mod realtime;
