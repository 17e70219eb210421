use super::{Circumstances, ModeChange};

/// Applies the mode expression `text` to a directory and to a file, with umask 022. `directory` and
/// `file` are the modes before and after; the modes after are those that chmod(1) of coreutils 9.1
/// sets.
#[track_caller]
fn check(text: &str, directory: (u32, u32), file: (u32, u32)) {
    let change = ModeChange::parse(text).expect("a mode");
    for (is_directory, (old, new)) in [(true, directory), (false, file)] {
        let mode = change.of(old, Circumstances { is_directory, umask: 0o022 });
        assert_eq!(format!("{mode:o}"), format!("{new:o}"), "{text} of {old:o}, {is_directory}");
    }
}

#[track_caller]
fn check_refused(text: &str) {
    assert_eq!(ModeChange::parse(text), None, "{text}");
}

/// Checks I1 of `xfs_cli::text::mode`: set-ID bits of a directory change only if they are named.
#[test]
fn directories_keep_set_id_bits_that_are_not_named() {
    for (text, directory, file) in [
        ("755", 0o6755, 0o755),
        ("0755", 0o6755, 0o755),
        ("00755", 0o755, 0o755),
        ("2755", 0o6755, 0o2755),
        ("02755", 0o2755, 0o2755),
        ("=755", 0o755, 0o755),
        ("u=rwx", 0o6775, 0o3754),
        ("g=rx", 0o6455, 0o5654),
        ("g-s", 0o4475, 0o5654),
        ("u=s", 0o6075, 0o7054),
        ("o=s", 0o6470, 0o6650),
        ("=", 0o6000, 0),
        ("a=s-u", 0o6000, 0o6000),
        ("+755", 0o6775, 0o7755),
        ("-022", 0o6455, 0o7654),
    ] {
        check(text, (0o6475, directory), (0o7654, file));
    }
}

#[test]
fn permissions_are_copied() {
    for (text, directory, file) in [
        ("g=u", 0o6445, 0o5664),
        ("u+o", 0o6575, 0o7654),
        ("a=u", 0o6444, 0o666),
        ("g=g", 0o6475, 0o5654),
        ("g=u,o=g", 0o6444, 0o4666),
        ("u=rw+u", 0o6675, 0o3654),
        ("gu=u=g", 0o6445, 0o1664),
    ] {
        check(text, (0o6475, directory), (0o7654, file));
    }
}

#[test]
fn clause_has_several_operators() {
    for (text, directory, file) in [
        ("u+r-w", 0o6475, 0o7454),
        ("u=r+w-x", 0o6675, 0o3654),
        ("g+X-x,o=g+t", 0o7466, 0o7644),
        ("-rwx,+x", 0o6131, 0o7111),
        ("u+rX", 0o6575, 0o7754),
        ("u+", 0o6475, 0o7654),
    ] {
        check(text, (0o6475, directory), (0o7654, file));
    }
}

#[test]
fn sticky_bit_is_that_of_others() {
    for (text, directory, file) in [
        ("u+t", 0o6475, 0o7654),
        ("g+t", 0o6475, 0o7654),
        ("o+t", 0o7475, 0o7654),
        ("+t", 0o7475, 0o7654),
        ("u-t", 0o6475, 0o7654),
        ("-t", 0o6475, 0o6654),
        ("u=t", 0o6075, 0o3054),
        ("=t", 0o7000, 0o1000),
    ] {
        check(text, (0o6475, directory), (0o7654, file));
    }
}

/// Checks I2 of `xfs_cli::text::mode`: an operation without classes changes only the bits that the
/// umask allows.
#[test]
fn mode_without_classes_follows_the_umask() {
    check("+w", (0o6475, 0o6675), (0o7654, 0o7654));
    check("-w", (0o6475, 0o6475), (0o7654, 0o7454));
    check("=rw", (0o6475, 0o6644), (0o7654, 0o644));
    check("a-w,+x", (0o6475, 0o6555), (0o7654, 0o7555));
    check("+rwxst", (0o6475, 0o7775), (0o7654, 0o7755));
    check("+7", (0o6475, 0o6477), (0o7654, 0o7657));
}

#[test]
fn invalid_mode_is_refused() {
    for text in ["", "8", "r", "u+z", "u+r,", ",u+r", "10000", "077777", "g+ug", "g=uX", "u=gr"] {
        check_refused(text);
    }
    for text in ["u+7", "+7+x", "+8", "u", "x+r", "7x", "+755x", "u+é"] {
        check_refused(text);
    }
}
