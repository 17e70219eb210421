//! Tests of the program as a filesystem. Real work runs on a mount, and xfs_repair checks the
//! volume afterwards.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod agreement;
mod building;
mod closing;
mod copying;
mod crash;
mod database;
mod ends;
mod files;
mod kinds;
mod listing;
mod media;
mod mounted;
mod permissions;
mod places;
mod postgres;
mod refusals;
mod repository;
mod rings;
mod running;
mod streams;
mod succession;
mod user;
mod work;
mod writeback;
mod writers;

use std::process::ExitCode;

use xfs_oracle::harness::{Trial, run};

fn main() -> ExitCode {
    if ends::is_served() {
        return ExitCode::SUCCESS;
    }
    let mut trials = vec![
        Trial::new(
            "mount_serves_with_the_available_threads",
            work::mount_serves_with_the_available_threads,
        ),
        Trial::new("tree_is_copied_there_and_back", work::tree_is_copied_there_and_back),
        Trial::new("mount_agrees_with_the_model", agreement::mount_agrees_with_the_model),
        Trial::new(
            "writeback_mount_agrees_with_the_model",
            agreement::writeback_mount_agrees_with_the_model,
        ),
        Trial::new("tree_made_by_the_kernel_is_shown", work::tree_made_by_the_kernel_is_shown),
        Trial::new("overlayfs_works_over_a_mount", work::overlayfs_works_over_a_mount),
        Trial::new("mount_calls_the_helper", work::mount_calls_the_helper),
        Trial::new("cached_inodes_are_bounded", work::cached_inodes_are_bounded),
        Trial::new(
            "golden_volumes_of_every_kind_are_mounted",
            kinds::golden_volumes_of_every_kind_are_mounted,
        ),
        Trial::new("free_space_is_given_back", work::free_space_is_given_back),
        Trial::new("figures_are_shown", work::figures_are_shown),
        Trial::new("figures_are_served", work::figures_are_served),
        Trial::new("verbose_mount_logs_its_work", work::verbose_mount_logs_its_work),
        Trial::new(
            "mount_continues_when_standard_error_is_closed",
            work::mount_continues_when_standard_error_is_closed,
        ),
        Trial::new("files_without_names_are_kept", files::files_without_names_are_kept),
        Trial::new("ranges_and_copies", files::ranges_and_copies),
        Trial::new("large_reads_show_what_was_written", streams::large_reads_show_what_was_written),
        Trial::new("pipes_are_few", streams::pipes_are_few),
        Trial::new("reader_sees_no_other_file", streams::reader_sees_no_other_file),
        Trial::new("flags_and_attributes", files::flags_and_attributes),
        Trial::new("lists_of_access_are_kept", files::lists_of_access_are_kept),
        Trial::new("volume_is_labelled_and_shut_down", crash::volume_is_labelled_and_shut_down),
        Trial::new("signals_unmount_cleanly", crash::signals_unmount_cleanly),
        Trial::new("failed_mount_says_why", refusals::failed_mount_says_why),
        Trial::new(
            "write_protected_device_is_only_read",
            refusals::write_protected_device_is_only_read,
        ),
        Trial::new("image_in_use_is_reported", refusals::image_in_use_is_reported),
        Trial::new("read_only_mount_writes_nothing", refusals::read_only_mount_writes_nothing),
        Trial::new(
            "signals_lose_nothing_acknowledged",
            writeback::signals_lose_nothing_acknowledged,
        ),
        Trial::new("writes_after_a_signal_are_kept", writeback::writes_after_a_signal_are_kept),
        Trial::new("synced_data_survives_a_kill", writeback::synced_data_survives_a_kill),
        Trial::new("times_are_those_of_the_kernel", writeback::times_are_those_of_the_kernel),
        Trial::new("append_only_file_keeps_all_data", writeback::append_only_file_keeps_all_data),
        Trial::new("full_volume_is_reported_by_fsync", writeback::full_volume_is_reported_by_fsync),
        Trial::new("unwritten_data_is_read_back", writeback::unwritten_data_is_read_back),
        Trial::new(
            "programs_lose_their_rights_when_written_to",
            writeback::programs_lose_their_rights_when_written_to,
        ),
        Trial::new("ordinary_user_mounts", user::ordinary_user_mounts),
    ];
    trials.extend(killed().into_iter().chain(cut()).chain(damaged()));
    trials.extend(prepared().into_iter().chain(permissions::trials()));
    trials.extend(rings::trials().into_iter().chain(succession::trials()));
    trials.extend(listing::trials().into_iter().chain(media::trials()).chain(writers::trials()));
    trials.extend(running::trials());
    run(trials)
}

/// Trials of mounts of damaged volumes.
fn damaged() -> Vec<Trial> {
    vec![
        Trial::new(
            "volume_with_a_damaged_root_is_not_mounted",
            refusals::volume_with_a_damaged_root_is_not_mounted,
        ),
        Trial::new(
            "damaged_volume_is_mounted_as_far_as_it_can_be_read",
            refusals::damaged_volume_is_mounted_as_far_as_it_can_be_read,
        ),
    ]
}

/// Trials of mounts together with another program: one that opens /dev/fuse or mounts for the
/// server, or a service manager that is notified when the mount is ready.
fn prepared() -> Vec<Trial> {
    vec![
        Trial::new("mount_passes_on_suid_and_dev", work::mount_passes_on_suid_and_dev),
        Trial::new("link_to_a_mount_is_unmounted", work::link_to_a_mount_is_unmounted),
        Trial::new("user_namespace_has_its_own_mount", places::user_namespace_has_its_own_mount),
        Trial::new(
            "users_of_a_user_namespace_are_told_apart",
            places::users_of_a_user_namespace_are_told_apart,
        ),
        Trial::new("ready_mount_notifies_systemd", places::ready_mount_notifies_systemd),
        Trial::new("mount_stats_and_umount_print_json", listing::mount_stats_and_umount_print_json),
        Trial::new("connection_is_taken_over", places::connection_is_taken_over),
        Trial::new("server_of_a_user_checks_groups", user::server_of_a_user_checks_groups),
        Trial::new("server_in_a_user_namespace_checks", places::server_in_a_user_namespace_checks),
        Trial::new(
            "mount_made_read_only_keeps_its_times",
            refusals::mount_made_read_only_keeps_its_times,
        ),
    ]
}

/// Trials of system calls that fail halfway, of changes that the server makes without a request,
/// and of mounts that cannot be closed or that end without being unmounted.
fn cut() -> Vec<Trial> {
    let mut trials = closing::trials();
    trials.extend([
        Trial::new("effects_of_a_failed_call_are_shown", files::effects_of_a_failed_call_are_shown),
        Trial::new("freed_space_is_shown", files::freed_space_is_shown),
        Trial::new(
            "answer_that_cannot_be_given_ends_the_mount",
            ends::answer_that_cannot_be_given_ends_the_mount,
        ),
        Trial::new("panic_leaves_no_mount", ends::panic_leaves_no_mount),
        Trial::new("cut_connection_ends_the_mount", ends::cut_connection_ends_the_mount),
        Trial::new(
            "mount_that_left_the_tree_ends_with_its_last_user",
            ends::mount_that_left_the_tree_ends_with_its_last_user,
        ),
    ]);
    trials
}

/// Trials in which the server is killed or asked to end during work.
fn killed() -> Vec<Trial> {
    vec![
        Trial::new("dead_mount_is_cleared_away", refusals::dead_mount_is_cleared_away),
        Trial::new("dying_mount_is_cleared_away", refusals::dying_mount_is_cleared_away),
        Trial::new(
            "mapped_data_is_kept_when_a_signal_arrives",
            writeback::mapped_data_is_kept_when_a_signal_arrives,
        ),
        Trial::new("killed_mount_is_recovered", crash::killed_mount_is_recovered),
        Trial::new(
            "written_through_data_survives_a_kill",
            crash::written_through_data_survives_a_kill,
        ),
        Trial::new(
            "database_keeps_what_it_acknowledged",
            database::database_keeps_what_it_acknowledged,
        ),
        Trial::new(
            "database_on_a_writeback_mount_keeps_what_it_acknowledged",
            database::database_on_a_writeback_mount_keeps_what_it_acknowledged,
        ),
        Trial::new(
            "postgres_keeps_what_it_acknowledged",
            postgres::postgres_keeps_what_it_acknowledged,
        ),
        Trial::new("repository_keeps_its_commits", repository::repository_keeps_its_commits),
        Trial::new("program_is_built_on_a_mount", building::program_is_built_on_a_mount),
        Trial::new("rsync_finds_no_difference", copying::rsync_finds_no_difference),
    ]
}
