//! The fields of an inode and its forks, in the form in which `dump` prints structures.

use ferroxfs::FileType;
use ferroxfs::contents::ForkKind;
use ferroxfs::error::StructureAddress;
use ferroxfs::raw::format::VerifyContext;
use ferroxfs::raw::format::attr::AttrShortForm;
use ferroxfs::raw::format::directory::{DirectoryForm, ShortForm};
use ferroxfs::raw::format::extent::{ExtentList, ExtentRoot};
use ferroxfs::raw::format::inode::{self, ForkFormat, InodeCore, InodeDisk};
use ferroxfs::{Corruption, Geometry, InodeNumber};

use super::blocks::{attribute_value, entry_value, extent_value};
use super::fields;
use super::value::{Fields, Value};

/// Returns the fields of an inode, and the result of its verifier.
pub(crate) fn describe_inode(
    bytes: &[u8],
    number: InodeNumber,
    context: &VerifyContext<'_>,
) -> (Fields, Result<(), Corruption>) {
    let mut described = fields::of::<InodeDisk>(bytes).unwrap_or_default();
    let core = match InodeCore::decode(bytes, number, context.geometry) {
        Ok(core) => core,
        Err(corruption) => return (described, Err(corruption)),
    };
    for (name, kind) in [("data", ForkKind::Data), ("attributes", ForkKind::Attr)] {
        let fork = describe_fork(bytes, &core, kind, context.geometry);
        described.extend(fork.map(|value| (name, value)));
    }
    (described, core.verify(bytes, context))
}

fn describe_fork(
    bytes: &[u8],
    core: &InodeCore,
    kind: ForkKind,
    geometry: &Geometry,
) -> Option<Value> {
    let fork = inode::fork(bytes, core, kind);
    match core.fork_format(kind)? {
        ForkFormat::Local => describe_local(fork, core, kind),
        ForkFormat::Extents => {
            let list = ExtentList::decode(fork, core.fork_extents(kind)).ok()?;
            Some(Value::List(list.iter().map(|extent| extent_value(&extent)).collect()))
        }
        ForkFormat::Btree => {
            let root = ExtentRoot::decode(fork).ok()?;
            let children = root.iter().map(|(file_block, child)| {
                let group = geometry.split_block(child).map_or(u64::MAX, |(ag, _)| ag.0.into());
                Value::Record(vec![
                    ("file_block", Value::number(file_block.0)),
                    ("child", Value::number(child.0)),
                    ("group", Value::Number { value: group, is_null: group == u64::MAX }),
                ])
            });
            Some(Value::List(children.collect()))
        }
        _ => None,
    }
}

fn describe_local(fork: &[u8], core: &InodeCore, kind: ForkKind) -> Option<Value> {
    let place = StructureAddress::Inode(core.number);
    if kind == ForkKind::Attr {
        let form = AttrShortForm::decode(fork, place).ok()?;
        let entries = form.entries().map_while(Result::ok);
        return Some(Value::List(entries.map(|entry| attribute_value(&entry)).collect()));
    }
    let size = usize::try_from(core.size).ok()?;
    let contents = fork.get(..size)?;
    match core.file_type()? {
        FileType::Directory => {
            let form = ShortForm::decode(contents, place, DirectoryForm::V5).ok()?;
            let parent = ("parent", Value::number(form.parent().0));
            let entries = form.entries().map_while(Result::ok).map(|entry| entry_value(&entry));
            Some(Value::Record(vec![parent, ("entries", Value::List(entries.collect()))]))
        }
        FileType::Symlink => Some(Value::Name(contents.to_vec())),
        _ => None,
    }
}
