//! Tests of the checker on whole volumes: sound and damaged ones.

mod causes;
mod damage;
mod golden;
mod promises;
mod reads;
mod realtime;
