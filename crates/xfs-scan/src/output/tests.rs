use expect_test::{Expect, expect};
use uuid::Uuid;
use xfs_format::timestamp::Timestamp;

use super::{FactsFormat, Header, Output, RowEncoder, Rows, Trailer};
use crate::accounting::Account;
use crate::row::{ByteList, Moment, OwnerNames, ParentDirectory, Row, RowView, VolumeLabel};
use crate::{AccountBy, Field, Fields, Finding, FindingCode, Format};

const HEADER: Header = Header { scan_time: 1_700_000_000_000_000_000 };

fn volume() -> VolumeLabel {
    VolumeLabel { uuid: Uuid::from_u128(0xf0), label: b"a,\"label\"".to_vec(), log: None }
}

fn list(items: &[&[u8]]) -> ByteList {
    let mut list = ByteList::default();
    items.iter().for_each(|item| list.push(item));
    list
}

fn moment(seconds: i64, nanoseconds: u32) -> Moment {
    Moment::new(Timestamp::new(seconds, nanoseconds).unwrap())
}

fn file() -> Row {
    Row {
        ino: 131,
        size: 4097,
        fs_blocks: 2,
        atime: moment(-1, 5),
        mtime: moment(1_700_000_000, 1),
        ctime: moment(0, 0),
        btime: moment(10_000_000_000, 0),
        extents: 1,
        attr_extents: 0,
        generation: 77,
        mode: 0o100_644,
        nlink: 2,
        uid: 1000,
        gid: 100,
        project_id: 5,
        xflags: 0x8000_0000,
        change_count: 12,
        lsn: 3 << 32 | 40,
        flags: 0x10,
        flags2: 0x18,
        ..Row::default()
    }
}

fn push_inode(encoder: &mut dyn RowEncoder, row: &Row, paths: &[&[u8]], symlink: Option<&[u8]>) {
    // Of two paths, the second is in the root directory.
    let parents = [(140, 9), (128, 1)].map(|(ino, generation)| ParentDirectory { ino, generation });
    let names = OwnerNames {
        users: [(1000, "ada".to_owned())].into(),
        groups: [(7, "x".to_owned())].into(),
    };
    let view = RowView {
        row,
        ag: 0,
        block_units_log: 3,
        paths: &list(paths),
        is_orphan: paths.is_empty(),
        hash: symlink.is_none().then_some("head:00ff"),
        symlink,
        xattrs: &list(&[b"user.a", b"user.\xff"]),
        realtime_fs_blocks: 1,
        parents: &parents,
        names: Some(&names),
    };
    encoder.inode(&view).unwrap();
}

/// Returns an output in `format` with three inodes, a finding and an account.
fn write(format: Format, fields: Fields) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_into(Output::begin(format, fields, HEADER, Box::new(&mut bytes)).unwrap());
    bytes
}

fn write_into(output: Output<'_>) {
    let Output { encoding, mut appender } = output;
    let volume = volume();
    appender.begin_volume(&volume).unwrap();
    let mut encoder = encoding.encoder(&volume).unwrap();
    push_inode(&mut *encoder, &file(), &[b"/a", b"/d/\"b\"\n"], None);
    push_inode(
        &mut *encoder,
        &Row { ino: 132, mode: 0o120_777, ..file() },
        &[b"/\xfe"],
        Some(b"t"),
    );
    push_inode(&mut *encoder, &Row { ino: 133, packed_rdev: 8 << 18 | 1, ..file() }, &[], None);
    let finding = Finding::about(FindingCode::Checksum, 192, "wrong, \"quite\"".to_owned());
    encoder.finding(&Finding { structure: Some("inode"), ..finding.hides(192, 64) }).unwrap();
    let account = Account {
        by: AccountBy::Directory,
        key: 128,
        owner: None,
        inodes: 3,
        size: 5,
        blocks: 16,
        shared_blocks: 8,
        paths: list(&[b"/"]),
    };
    encoder.account(&account).unwrap();
    let piece = encoder.finish().unwrap();
    appender.append(piece).unwrap();
    appender.finish(Trailer { inodes: 3, findings: 1, missing_inodes: 64 }).unwrap();
}

fn all_fields() -> Fields {
    Field::ALL.into_iter().collect()
}

#[track_caller]
fn check_text(format: Format, fields: &str, expected: Expect) {
    let fields = match fields {
        "all" => all_fields(),
        names => names.split(',').map(|name| name.parse::<Field>().unwrap()).collect(),
    };
    let text = write(format, fields).escape_ascii().to_string();
    expected.assert_eq(&text.replace("\\n", "\n").replace("\\\"", "\""));
}

#[test]
fn ndjson() {
    check_text(
        Format::Ndjson,
        "all",
        expect![[r#"
            {"row":"scan","schema_version":2,"scan_time":1700000000000000000}
            {"row":"volume","volume_uuid":"00000000-0000-0000-0000-0000000000f0","volume_label":"a,\\"label\\""}
            {"row":"inode","volume_uuid":"00000000-0000-0000-0000-0000000000f0","volume_label":"a,\\"label\\"","ino":131,"generation":77,"ag":0,"type":"file","mode":33188,"nlink":2,"uid":1000,"gid":100,"project_id":5,"size":4097,"blocks":16,"rt_blocks":8,"atime":-999999995,"mtime":1700000000000000001,"ctime":0,"btime":10000000000000000000,"extents":1,"attr_extents":0,"xflags":2147483648,"rdev":0,"change_count":12,"lsn":12884901928,"flags":16,"flags2":24,"owner":"ada","hash":"head:00ff","xattrs":["user.a"],"xattrs_bytes":["dXNlci7/"],"paths":["/a","/d/\\"b\\"\
            "],"parents":[140,128],"parent_generations":[9,1]}
            {"row":"inode","volume_uuid":"00000000-0000-0000-0000-0000000000f0","volume_label":"a,\\"label\\"","ino":132,"generation":77,"ag":0,"type":"symlink","mode":41471,"nlink":2,"uid":1000,"gid":100,"project_id":5,"size":4097,"blocks":16,"rt_blocks":8,"atime":-999999995,"mtime":1700000000000000001,"ctime":0,"btime":10000000000000000000,"extents":1,"attr_extents":0,"xflags":2147483648,"rdev":0,"change_count":12,"lsn":12884901928,"flags":16,"flags2":24,"owner":"ada","symlink":"t","xattrs":["user.a"],"xattrs_bytes":["dXNlci7/"],"paths":[],"paths_bytes":["L/4="],"parents":[140],"parent_generations":[9]}
            {"row":"inode","volume_uuid":"00000000-0000-0000-0000-0000000000f0","volume_label":"a,\\"label\\"","ino":133,"generation":77,"ag":0,"type":"file","mode":33188,"nlink":2,"uid":1000,"gid":100,"project_id":5,"size":4097,"blocks":16,"rt_blocks":8,"atime":-999999995,"mtime":1700000000000000001,"ctime":0,"btime":10000000000000000000,"extents":1,"attr_extents":0,"xflags":2147483648,"rdev":2049,"change_count":12,"lsn":12884901928,"flags":16,"flags2":24,"owner":"ada","hash":"head:00ff","xattrs":["user.a"],"xattrs_bytes":["dXNlci7/"],"paths":[],"orphan":true,"parents":[],"parent_generations":[]}
            {"row":"error","volume_uuid":"00000000-0000-0000-0000-0000000000f0","volume_label":"a,\\"label\\"","code":"checksum","ino":192,"inode_count":64,"structure":"inode","message":"wrong, \\"quite\\""}
            {"row":"account","volume_uuid":"00000000-0000-0000-0000-0000000000f0","volume_label":"a,\\"label\\"","by":"dir","key":128,"inodes":3,"size":5,"blocks":16,"shared_blocks":8,"paths":["/"]}
            {"row":"end","inodes":3,"errors":1,"missing_inodes":64}
        "#]],
    );
    check_text(
        Format::Ndjson,
        "ino,mode,mtime",
        expect![[r#"
        {"row":"scan","schema_version":2,"scan_time":1700000000000000000}
        {"row":"volume","volume_uuid":"00000000-0000-0000-0000-0000000000f0","volume_label":"a,\\"label\\""}
        {"row":"inode","ino":131,"mode":33188,"mtime":1700000000000000001}
        {"row":"inode","ino":132,"mode":41471,"mtime":1700000000000000001}
        {"row":"inode","ino":133,"mode":33188,"mtime":1700000000000000001}
        {"row":"error","code":"checksum","ino":192,"inode_count":64,"structure":"inode","message":"wrong, \\"quite\\""}
        {"row":"account","by":"dir","key":128,"inodes":3,"size":5,"blocks":16,"shared_blocks":8,"paths":["/"]}
        {"row":"end","inodes":3,"errors":1,"missing_inodes":64}
    "#]],
    );
}

#[test]
fn ndjson_line_is_always_an_object() {
    let bytes = write(Format::Ndjson, all_fields());
    let kinds: Vec<String> = bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice::<serde_json::Value>(line).unwrap())
        .map(|value| value["row"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds, ["scan", "volume", "inode", "inode", "inode", "error", "account", "end"]);
}

#[test]
fn csv_has_one_line_per_inode_and_no_others() {
    check_text(
        Format::Csv,
        "all",
        expect![[r#"
            volume_uuid,volume_label,ino,generation,ag,type,mode,nlink,uid,gid,project_id,size,blocks,rt_blocks,atime,mtime,ctime,btime,extents,attr_extents,xflags,rdev,change_count,lsn,flags,flags2,owner,group,hash,symlink,symlink_bytes,xattrs,xattrs_bytes,paths,more_paths,paths_bytes,orphan,parents,parent_generations
            00000000-0000-0000-0000-0000000000f0,"a,""label""",131,77,0,file,33188,2,1000,100,5,4097,16,8,-999999995,1700000000000000001,0,10000000000000000000,1,0,2147483648,0,12,12884901928,16,24,ada,,head:00ff,,,"[""user.a""]","[""dXNlci7/""]",/a,"[""/d/\\""b\\""\
            ""]",,false,"[140,128]","[9,1]"
            00000000-0000-0000-0000-0000000000f0,"a,""label""",132,77,0,symlink,41471,2,1000,100,5,4097,16,8,-999999995,1700000000000000001,0,10000000000000000000,1,0,2147483648,0,12,12884901928,16,24,ada,,,t,,"[""user.a""]","[""dXNlci7/""]",,,"[""L/4=""]",false,[140],[9]
            00000000-0000-0000-0000-0000000000f0,"a,""label""",133,77,0,file,33188,2,1000,100,5,4097,16,8,-999999995,1700000000000000001,0,10000000000000000000,1,0,2147483648,2049,12,12884901928,16,24,ada,,head:00ff,,,"[""user.a""]","[""dXNlci7/""]",,,,true,,
        "#]],
    );
    check_text(
        Format::Csv,
        "ino,size",
        expect![[r#"
            ino,size
            131,4097
            132,4097
            133,4097
        "#]],
    );
}

/// Returns the header and the rows of a CSV output. Panics unless the output is UTF-8 and every row
/// has every column, as data frame libraries require.
fn read_csv(fields: Fields) -> (csv::StringRecord, Vec<csv::StringRecord>) {
    let bytes = write(Format::Csv, fields);
    let mut reader = csv::ReaderBuilder::new().flexible(false).from_reader(bytes.as_slice());
    let header = reader.headers().unwrap().clone();
    (header, reader.records().collect::<Result<_, _>>().unwrap())
}

#[test]
fn csv_row_has_every_column_for_any_fields() {
    let choices = ["ino,size", "ino", "volume_uuid,ag,paths", "xattrs,symlink,size", "symlink"];
    let chosen = choices
        .map(|fields| fields.split(',').map(|name| name.parse::<Field>().unwrap()).collect());
    for fields in chosen.into_iter().chain([all_fields(), Fields::default()]) {
        let (header, rows) = read_csv(fields);
        assert_eq!(rows.len(), 3, "{header:?}");
        assert!(rows.iter().all(|row| row.len() == header.len()), "{header:?}");
    }
}

#[test]
fn csv_lists_are_json_and_non_utf8_names_base64() {
    let (header, rows) = read_csv(all_fields());
    let cell = |row: usize, name: &str| {
        let column = header.iter().position(|column| column == name).unwrap();
        rows[row][column].to_owned()
    };
    assert_eq!(cell(0, "volume_label"), "a,\"label\"");
    assert_eq!((cell(0, "paths").as_str(), cell(0, "orphan").as_str()), ("/a", "false"));
    let more: Vec<String> = serde_json::from_str(&cell(0, "more_paths")).unwrap();
    assert_eq!(more, ["/d/\"b\"\n"]);
    assert_eq!(cell(0, "paths_bytes"), "");
    assert_eq!((cell(1, "paths").as_str(), cell(1, "paths_bytes").as_str()), ("", "[\"L/4=\"]"));
    assert_eq!((cell(1, "symlink").as_str(), cell(1, "symlink_bytes").as_str()), ("t", ""));
    assert_eq!((cell(2, "paths").as_str(), cell(2, "orphan").as_str()), ("", "true"));
    assert_eq!(cell(2, "xattrs"), "[\"user.a\"]");
    assert_eq!(cell(2, "xattrs_bytes"), "[\"dXNlci7/\"]");
}

#[test]
fn csv_keeps_a_row_whose_only_cell_is_empty() {
    let volume = VolumeLabel { label: Vec::new(), ..volume() };
    let fields: Fields = [Field::VolumeLabel].into_iter().collect();
    let mut encoder = super::csv::CsvEncoder::new(fields, &volume, Vec::new());
    push_inode(&mut encoder, &file(), &[b"/a"], None);
    let piece = Box::new(encoder).finish().unwrap();
    assert!(matches!(piece.rows, Some(Rows::Lines(lines)) if lines == b"\"\"\n"));
}

/// Writes rows and facts (a finding, an account, totals) in `format`, whose rows are inodes only.
/// Returns the second output, which has the facts.
fn facts(format: Format, facts: FactsFormat) -> String {
    let (mut rows, mut side) = (Vec::new(), Vec::new());
    let output = Output::begin(format, Fields::default(), HEADER, Box::new(&mut rows)).unwrap();
    write_into(output.facts_to(facts, Box::new(&mut side)).unwrap());
    String::from_utf8(side).unwrap()
}

#[test]
fn facts_are_the_ndjson_rows_other_than_inodes() {
    let expected = expect![[r#"
        {"row":"scan","schema_version":2,"scan_time":1700000000000000000}
        {"row":"volume","volume_uuid":"00000000-0000-0000-0000-0000000000f0","volume_label":"a,\"label\""}
        {"row":"error","volume_uuid":"00000000-0000-0000-0000-0000000000f0","volume_label":"a,\"label\"","code":"checksum","ino":192,"inode_count":64,"structure":"inode","message":"wrong, \"quite\""}
        {"row":"account","volume_uuid":"00000000-0000-0000-0000-0000000000f0","volume_label":"a,\"label\"","by":"dir","key":128,"inodes":3,"size":5,"blocks":16,"shared_blocks":8,"paths":["/"]}
        {"row":"end","inodes":3,"errors":1,"missing_inodes":64}
    "#]];
    expected.assert_eq(&facts(Format::Csv, FactsFormat::Ndjson));
    #[cfg(feature = "parquet")]
    assert_eq!(
        facts(Format::Parquet, FactsFormat::Ndjson),
        facts(Format::Csv, FactsFormat::Ndjson)
    );
    assert_eq!(facts(Format::Ndjson, FactsFormat::Ndjson), "");
    let expected = expect![[r#"
        error: checksum: inode 192 and the 63 after it: wrong, "quite"
        dir                128 inodes          3 size                5 blocks             16 shared            8 /
    "#]];
    expected.assert_eq(&facts(Format::Csv, FactsFormat::Text));
}

#[test]
fn table() {
    check_text(
        Format::Table,
        "ino,type,mode,size,mtime,symlink,paths",
        expect![[r#"
                 ino type            mode         size mtime                symlink paths
                 131 file          100644         4097 2023-11-14T22:13:20Z user.a user.\\xff /a /d/"b"\

                 132 symlink       120777         4097 2023-11-14T22:13:20Z -> t user.a user.\\xff /\\xfe
                 133 file          100644         4097 2023-11-14T22:13:20Z user.a user.\\xff (orphan)
        error: checksum: inode 192 and the 63 after it: wrong, "quite"
        dir                128 inodes          3 size                5 blocks             16 shared            8 /
    "#]],
    );
}

#[cfg(feature = "parquet")]
#[test]
fn parquet() {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{TimestampNanosecondType, UInt64Type};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    let path = std::env::temp_dir().join(format!("xfs-scan-{}.parquet", std::process::id()));
    std::fs::write(&path, write(Format::Parquet, all_fields())).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let metadata = builder.metadata().file_metadata().key_value_metadata().unwrap().clone();
    let value = |key: &str| {
        let found = metadata.iter().find(|entry| entry.key == key);
        found.and_then(|entry| entry.value.clone()).unwrap()
    };
    assert_eq!(value("ferroxfs.schema_version"), "2");
    assert_eq!(value("ferroxfs.scan_time"), HEADER.scan_time.to_string());
    assert_eq!(value("ferroxfs.inodes"), "3");
    assert_eq!(value("ferroxfs.errors"), "1");
    assert_eq!(value("ferroxfs.missing_inodes"), "64");
    assert_eq!(value("ferroxfs.complete"), "false");
    assert!(value("ferroxfs.volumes").contains("-0000000000f0"));
    assert_eq!(value("ferroxfs.facts_omitted"), "0");
    let facts = value("ferroxfs.facts");
    let kinds: Vec<String> = facts
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|row| row["row"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds, ["volume", "error", "account"]);

    let batch = builder.build().unwrap().next().unwrap().unwrap();
    let texts = |name: &str| -> Vec<Option<String>> {
        let column = batch.column_by_name(name).unwrap().as_string::<i32>();
        column.iter().map(|text| text.map(str::to_owned)).collect()
    };
    assert_eq!(batch.num_rows(), 3);
    for gone in ["row", "code", "message", "account_by", "shared_blocks"] {
        assert!(batch.column_by_name(gone).is_none(), "{gone}");
    }
    assert_eq!(texts("type")[1].as_deref(), Some("symlink"));
    assert_eq!(texts("symlink")[1].as_deref(), Some("t"));
    let ino = batch.column_by_name("ino").unwrap().as_primitive::<UInt64Type>();
    assert_eq!(ino.iter().collect::<Vec<_>>(), [Some(131), Some(132), Some(133)]);
    let times = |name: &str| {
        batch.column_by_name(name).unwrap().as_primitive::<TimestampNanosecondType>().clone()
    };
    assert_eq!(times("atime").iter().next(), Some(Some(-999_999_995)));
    assert_eq!(times("btime").iter().next(), Some(None), "Arrow cannot hold the year 2286");

    let paths = batch.column_by_name("paths").unwrap().as_list::<i32>();
    assert_eq!(
        paths.value(0).as_string::<i32>().iter().flatten().collect::<Vec<_>>(),
        ["/a", "/d/\"b\"\n"]
    );
    assert_eq!(paths.value_length(1), 0);
    let bytes = batch.column_by_name("paths_bytes").unwrap().as_list::<i32>();
    assert_eq!(bytes.value(1).as_binary::<i32>().value(0), b"/\xfe");
    assert_eq!(bytes.value_length(0), 0);
}

#[cfg(feature = "parquet")]
#[test]
fn record_batches_hold_the_rows_of_the_parquet_file() {
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    let fields = all_fields();
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, &write(Format::Parquet, fields)).unwrap();
    let mut reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
    let expected = reader.next().unwrap().unwrap();
    let mut batches = Vec::new();
    write_into(Output::arrow(fields, HEADER, |batch| {
        batches.push(batch);
        Ok(())
    }));
    let [batch] = batches.as_slice() else { panic!("{} batches", batches.len()) };
    assert_eq!(batch.schema(), super::arrow_schema(fields));
    assert_eq!(batch.columns(), expected.columns());
}

/// Writes `count` files. The project changes once, far from the first row, and the link count in
/// long runs. The group changes from row to row, and after some steps so does the user.
#[cfg(feature = "parquet")]
fn write_files(output: Output<'_>, count: u64) {
    let Output { encoding, mut appender } = output;
    let volume = volume();
    let mut encoder = encoding.encoder(&volume).unwrap();
    for ino in 128..128 + count {
        let project_id = if ino > 9000 { u32::MAX } else { 0 };
        let uid = if ino > 15_000 { ino as u32 % 7 } else { 1000 };
        let nlink = ino as u32 / 100 % 5;
        let row = Row { ino, project_id, uid, nlink, gid: ino as u32 % 3, ..file() };
        push_inode(&mut *encoder, &row, &[b"/a"], None);
    }
    let piece = encoder.finish().unwrap();
    appender.append(piece).unwrap();
    appender.finish(Trailer { inodes: count, findings: 0, missing_inodes: 0 }).unwrap();
}

#[cfg(feature = "parquet")]
#[test]
fn columns_in_runs_are_read_back_as_they_were_written() {
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use parquet::file::statistics::Statistics;

    let (fields, count) = (all_fields(), 20_000);
    let mut bytes = Vec::new();
    write_files(
        Output::begin(Format::Parquet, fields, HEADER, Box::new(&mut bytes)).unwrap(),
        count,
    );
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, &bytes).unwrap();
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();

    let group = builder.metadata().row_group(0).clone();
    let column =
        |name: &str| group.columns().iter().find(|it| it.column_path().string() == name).unwrap();
    let of_runs = ["size", "volume_label", "type", "project_id", "nlink"];
    let of_rows = ["gid", "uid"];
    for (name, is_of_runs) in
        of_runs.map(|name| (name, true)).into_iter().chain(of_rows.map(|name| (name, false)))
    {
        let size = column(name).compressed_size();
        assert_eq!(size < 800, is_of_runs, "{name} takes {size} bytes");
    }
    let Some(Statistics::Int32(bounds)) = column("project_id").statistics() else {
        panic!("no bounds")
    };
    // The numbers are unsigned, and are stored as signed ones.
    assert_eq!((bounds.min_opt(), bounds.max_opt()), (Some(&0), Some(&-1)));
    let Some(Statistics::Int64(bounds)) = column("size").statistics() else { panic!("no bounds") };
    assert_eq!((bounds.min_opt(), bounds.max_opt()), (Some(&4097), Some(&4097)));
    assert_eq!(bounds.null_count_opt(), Some(0));

    let mut expected = Vec::new();
    write_files(
        Output::arrow(fields, HEADER, |batch| {
            expected.push(batch);
            Ok(())
        }),
        count,
    );
    let reader = builder.with_batch_size(expected[0].num_rows()).build().unwrap();
    let read: Vec<_> = reader.map(Result::unwrap).collect();
    assert_eq!(read.len(), expected.len());
    for (read, expected) in read.iter().zip(&expected) {
        assert_eq!(read.columns(), expected.columns());
    }
}
