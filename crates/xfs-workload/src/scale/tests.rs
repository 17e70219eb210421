use super::{Demand, Scale, ScaleLimit, predict, served_ns, throughput};

const DEMAND: Demand = Demand {
    processor_ns: 1000.0,
    group_ns: 0.0,
    log_ns: 0.0,
    volume_writes: 0.0,
    log_bytes: 0.0,
    memory_bytes: 0.0,
};

fn scale(processors: usize) -> Scale {
    Scale { processors, groups: 4, transfer_ns: 100.0, log_bandwidth: 1e9, memory_bandwidth: 1e10 }
}

fn is_near(value: f64, expected: f64) -> bool {
    (value / expected - 1.0).abs() < 1e-6
}

#[test]
fn two_threads_at_one_station_have_the_rate_of_the_textbook() {
    assert!(is_near(throughput(1, 1.0, &[1.0]), 0.5));
    assert!(is_near(throughput(2, 1.0, &[1.0]), 0.8));
    assert!(throughput(1000, 1.0, &[1.0]) > 0.999);
}

#[test]
fn threads_that_share_nothing_scale() {
    let predicted = predict(&DEMAND, &scale(64));
    assert!(is_near(predicted.rate, 64e6) && is_near(predicted.efficiency, 1.0));
    assert_eq!(predicted.limit, ScaleLimit::Work);
}

#[test]
fn each_limit_is_named_and_bounds_the_rate() {
    let check = |demand: Demand, limit, most: f64| {
        let predicted = predict(&demand, &scale(256));
        assert_eq!(predicted.limit, limit, "{predicted:?}");
        assert!(predicted.rate <= most * 1.000_001 && predicted.rate > most * 0.8, "{predicted:?}");
    };
    // Four groups serve one operation in 100 ns each.
    check(Demand { group_ns: 100.0, ..DEMAND }, ScaleLimit::Groups, 40e6);
    check(Demand { log_ns: 10.0, ..DEMAND }, ScaleLimit::Log, 100e6);
    check(Demand { volume_writes: 0.1, ..DEMAND }, ScaleLimit::VolumeMemory, 100e6);
    check(Demand { log_bytes: 100.0, ..DEMAND }, ScaleLimit::LogBandwidth, 10e6);
    check(Demand { memory_bytes: 1000.0, ..DEMAND }, ScaleLimit::MemoryBandwidth, 10e6);
}

#[test]
fn groups_for_all_threads_remove_the_wait_for_groups() {
    let demand = Demand { group_ns: 500.0, ..DEMAND };
    let few = predict(&demand, &scale(64));
    let many = predict(&demand, &Scale { groups: 64, ..scale(64) });
    assert!(few.rate < many.rate / 4.0);
    assert_eq!((few.limit, many.limit), (ScaleLimit::Groups, ScaleLimit::Work));
}

#[test]
fn time_at_a_station_follows_from_the_rate_of_several_threads() {
    for served in [200.0, 400.0, 900.0] {
        let rate = throughput(4, 1000.0 - served, &[served]) * 1e9;
        assert!(is_near(served_ns(1000.0, 4, rate, 1.0), served));
        assert!(is_near(served_ns(1000.0, 4, rate * 0.9, 0.9), served));
    }
    assert!(served_ns(1000.0, 2, 1.98e6, 1.0).abs() < 1e-9);
}
