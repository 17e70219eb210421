//! Parses suboptions such as `-d agcount=4,size=1g`.

use std::str::FromStr;

use uuid::Uuid;
use xfs_format::superblock::Label;

use super::{Autofsck, NotSupported, OptionError, Options, Size, Unit};

/// A suboption of the form `name=value`, or `name` alone.
struct Suboption<'a> {
    letter: char,
    name: &'a str,
    value: Option<&'a str>,
}

impl Options {
    /// Parses the argument of one of mkfs.xfs's options `-b`, `-d`, `-i`, `-l`, `-m`, `-n`, `-r`,
    /// `-s`. An option may be given several times, each of its suboptions once.
    ///
    /// # Errors
    ///
    /// The error of an invalid or unsupported suboption.
    pub fn parse(&mut self, letter: char, argument: &str) -> Result<(), OptionError> {
        for part in argument.split(',') {
            let (name, value) = match part.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (part, None),
            };
            let suboption = Suboption { letter, name, value };
            let key = (letter, name.to_owned());
            if self.seen.contains(&key) {
                return Err(OptionError::Twice { letter, name: name.to_owned() });
            }
            self.seen.push(key);
            match letter {
                'b' => self.parse_block(&suboption)?,
                'd' => self.parse_data(&suboption)?,
                'i' => self.parse_inode(&suboption)?,
                'l' => self.parse_log(&suboption)?,
                'm' => self.parse_metadata(&suboption)?,
                'n' => self.parse_naming(&suboption)?,
                'r' => self.parse_realtime(&suboption)?,
                's' => self.parse_sector(&suboption)?,
                _ => return Err(suboption.unknown()),
            }
        }
        Ok(())
    }

    /// Parses the argument of `-L`.
    ///
    /// # Errors
    ///
    /// [`OptionError::Label`] if the label is longer than twelve bytes.
    pub fn parse_label(&mut self, label: &[u8]) -> Result<(), OptionError> {
        self.label = Label::new(label).ok_or_else(|| OptionError::Label {
            label: String::from_utf8_lossy(label).into_owned(),
        })?;
        Ok(())
    }

    fn parse_block(&mut self, option: &Suboption<'_>) -> Result<(), OptionError> {
        match option.name {
            "size" => self.block_size = Some(option.size()?),
            _ => return Err(option.unknown()),
        }
        Ok(())
    }

    fn parse_sector(&mut self, option: &Suboption<'_>) -> Result<(), OptionError> {
        match option.name {
            "size" | "sectsize" => self.sector_size = Some(option.size()?),
            _ => return Err(option.unknown()),
        }
        Ok(())
    }

    fn parse_data(&mut self, option: &Suboption<'_>) -> Result<(), OptionError> {
        let data = &mut self.data;
        match option.name {
            "agcount" => data.agcount = Some(option.size()?),
            "agsize" => data.agsize = Some(option.size()?),
            "size" => data.size = Some(option.size()?),
            "su" => data.su = Some(option.size()?),
            "sw" => data.sw = Some(option.size()?),
            "sunit" => data.sunit = Some(option.size()?),
            "swidth" => data.swidth = Some(option.size()?),
            "sectsize" => self.sector_size = Some(option.size()?),
            "noalign" => data.noalign = option.flag()?,
            "file" => data.file = option.flag()?,
            "name" => data.name = Some(option.value()?.into()),
            "rtinherit" => data.inherited.realtime = Some(option.flag()?),
            "projinherit" => {
                let id = option.plain_number(u32::MAX.into())?;
                data.inherited.project = u32::try_from(id).ok();
            }
            "extszinherit" => {
                data.inherited.extent_size_blocks = Some(option.plain_number(u64::MAX)?);
            }
            "cowextsize" => {
                data.inherited.cow_extent_size_blocks = Some(option.plain_number(u64::MAX)?);
            }
            "daxinherit" => data.inherited.dax = option.flag()?,
            "concurrency" => {
                let wanted = option.concurrency(
                    "a geometry that depends on the number of processors; give agcount instead",
                )?;
                data.concurrency = Some(wanted).filter(|threads| *threads != 0);
            }
            _ => return Err(option.unknown()),
        }
        Ok(())
    }

    fn parse_inode(&mut self, option: &Suboption<'_>) -> Result<(), OptionError> {
        let (inode, features) = (&mut self.inode, &mut self.features);
        match option.name {
            "size" => inode.size = Some(option.size()?),
            "perblock" => inode.perblock = Some(option.size()?),
            "maxpct" => inode.maxpct = Some(option.size()?),
            "sparse" => features.sparse = Some(option.flag()?),
            "nrext64" => features.nrext64 = Some(option.flag()?),
            "exchange" => features.exchange = Some(option.flag()?),
            "align" => option.must_be_on("inodes that are not aligned (version 4 only)")?,
            "attr" => option.must_be("2", "older attributes (version 4 only)")?,
            "projid32bit" => {
                option.must_be_on("project identifiers of 16 bits (version 4 only)")?;
            }
            "max_atomic_write" => {
                return Err(option.not_supported("a bound for untorn writes"));
            }
            _ => return Err(option.unknown()),
        }
        Ok(())
    }

    fn parse_log(&mut self, option: &Suboption<'_>) -> Result<(), OptionError> {
        let log = &mut self.log;
        match option.name {
            "size" => log.size = Some(option.size()?),
            "internal" => log.internal = Some(option.flag()?),
            "agnum" => log.agnum = Some(option.size()?),
            "logdev" | "name" => log.device = Some(option.value()?.into()),
            "file" => log.file = option.flag()?,
            // xfs_info prints 0 if there is no stripe.
            "su" => log.su = Some(option.size()?).filter(|size| size.number != 0),
            "sunit" => log.sunit = Some(option.size()?).filter(|size| size.number != 0),
            "sectsize" => log.sectsize = Some(option.size()?),
            "version" => option.must_be("2", "logs of version 1 (version 4 only)")?,
            "lazy-count" => option.must_be_on("eager counters (version 4 only)")?,
            "concurrency" => {
                let what = "a log whose size depends on the number of threads; give size instead";
                if option.concurrency(what)? != 0 {
                    return Err(option.not_supported(what));
                }
            }
            _ => return Err(option.unknown()),
        }
        Ok(())
    }

    fn parse_metadata(&mut self, option: &Suboption<'_>) -> Result<(), OptionError> {
        let features = &mut self.features;
        match option.name {
            "finobt" => features.finobt = Some(option.flag()?),
            "rmapbt" => features.rmapbt = Some(option.flag()?),
            "reflink" => features.reflink = Some(option.flag()?),
            "inobtcount" => features.inobtcount = Some(option.flag()?),
            "bigtime" => features.bigtime = Some(option.flag()?),
            "autofsck" => features.autofsck = Some(option.autofsck()?),
            "uuid" => self.uuid = Some(option.uuid()?),
            "crc" => option.must_be_on("volumes of version 4, without checksums")?,
            "metadir" => features.metadir = Some(option.flag()?),
            _ => return self.parse_quota(option),
        }
        Ok(())
    }

    fn parse_quota(&mut self, option: &Suboption<'_>) -> Result<(), OptionError> {
        let quota = &mut self.quota;
        match option.name {
            "uquota" => quota.user.enforced = option.flag()?,
            "uqnoenforce" => quota.user.accounted = option.flag()?,
            "gquota" => quota.group.enforced = option.flag()?,
            "gqnoenforce" => quota.group.accounted = option.flag()?,
            "pquota" => quota.project.enforced = option.flag()?,
            "pqnoenforce" => quota.project.accounted = option.flag()?,
            // Mount options only. xfs_info prints neither.
            "quota" | "qnoenforce" => option.must_be_off("this name of quota; uquota is known")?,
            _ => return Err(option.unknown()),
        }
        Ok(())
    }

    fn parse_naming(&mut self, option: &Suboption<'_>) -> Result<(), OptionError> {
        match option.name {
            "size" => self.directory_block_size = Some(option.size()?),
            "parent" => self.features.parent = Some(option.flag()?),
            "version" => option.must_be("2", "case-insensitive names")?,
            // Not an option of mkfs.xfs, but xfs_info prints it in this section.
            "ascii-ci" => option.must_be_off("case-insensitive names")?,
            "ftype" => option.must_be_on("directories without file types (version 4 only)")?,
            _ => return Err(option.unknown()),
        }
        Ok(())
    }
}

impl Options {
    /// Parses the suboptions of `-r`. A number of 0 counts as not given: xfs_info prints it for a
    /// volume without a realtime section.
    fn parse_realtime(&mut self, option: &Suboption<'_>) -> Result<(), OptionError> {
        let realtime = &mut self.realtime;
        let size = || Ok::<_, OptionError>(Some(option.size()?).filter(|size| size.number != 0));
        match option.name {
            "extsize" => realtime.extent_size = Some(option.size()?),
            "rtdev" | "name" => realtime.device = Some(option.value()?.into()),
            "file" => realtime.file = option.flag()?,
            "size" => realtime.size = size()?,
            "rgcount" => realtime.group_count = size()?,
            "rgsize" => realtime.group_size = size()?,
            "noalign" => _ = option.flag()?,
            "concurrency" => {
                let what = "groups that depend on the number of threads; give rgcount instead";
                if option.concurrency(what)? != 0 {
                    return Err(option.not_supported(what));
                }
            }
            "zoned" => realtime.zoned = option.flag()?,
            "start" => realtime.start = size()?,
            "reserved" => realtime.reserved = size()?,
            _ => return Err(option.unknown()),
        }
        Ok(())
    }
}

impl Suboption<'_> {
    fn value(&self) -> Result<&str, OptionError> {
        let missing = || OptionError::MissingValue { letter: self.letter, name: self.name.into() };
        self.value.filter(|value| !value.is_empty()).ok_or_else(missing)
    }

    fn size(&self) -> Result<Size, OptionError> {
        let value = self.value()?;
        Size::parse(value).ok_or_else(|| OptionError::NotANumber {
            letter: self.letter,
            name: self.name.into(),
            value: value.into(),
        })
    }

    /// Parses a number without a suffix, decimal or hexadecimal, of at most `max`.
    fn plain_number(&self, max: u64) -> Result<u64, OptionError> {
        let value = self.value()?;
        let ends_in_digit = value.ends_with(|last: char| last.is_ascii_hexdigit());
        let is_plain = |size: &Size| size.unit == Unit::One && ends_in_digit;
        let Some(size) = Size::parse(value).filter(is_plain) else {
            let (letter, name, value) = (self.letter, self.name.into(), value.into());
            return Err(OptionError::NotAPlainNumber { letter, name, value });
        };
        if size.number > max {
            let (letter, name, value) = (self.letter, self.name.into(), value.into());
            return Err(OptionError::TooLarge { letter, name, value, max });
        }
        Ok(size.number)
    }

    /// Parses a number of threads. mkfs.xfs uses the machine's number of processors if the value is
    /// missing, 1 or `nr_cpus`. Returns an error in these cases: a volume must not depend on the
    /// machine that makes it.
    fn concurrency(&self, what: &'static str) -> Result<u64, OptionError> {
        match self.value {
            None | Some("1" | "nr_cpus") => Err(self.not_supported(what)),
            Some(_) => self.plain_number(i32::MAX.cast_unsigned().into()),
        }
    }

    /// Parses a flag: `0` or `1`. A flag without a value is on.
    fn flag(&self) -> Result<bool, OptionError> {
        match self.value {
            None | Some("1") => Ok(true),
            Some("0") => Ok(false),
            Some(value) => Err(OptionError::NotAFlag {
                letter: self.letter,
                name: self.name.into(),
                value: value.into(),
            }),
        }
    }

    fn uuid(&self) -> Result<Uuid, OptionError> {
        let value = self.value()?;
        Uuid::from_str(value).map_err(|_| OptionError::NotAUuid {
            letter: self.letter,
            name: self.name.into(),
            value: value.into(),
        })
    }

    fn autofsck(&self) -> Result<Autofsck, OptionError> {
        match self.value.unwrap_or("1") {
            "0" | "none" => Ok(Autofsck::None),
            "check" => Ok(Autofsck::Check),
            "optimize" => Ok(Autofsck::Optimize),
            "1" | "repair" => Ok(Autofsck::Repair),
            value => Err(OptionError::NotAChoice {
                letter: self.letter,
                name: self.name.into(),
                value: value.into(),
            }),
        }
    }

    /// Accepts `expected`, the only value that version 5 of the format allows. For any other value,
    /// returns an error that names `otherwise`, the unsupported feature.
    fn must_be(&self, expected: &str, otherwise: &'static str) -> Result<(), OptionError> {
        if self.value()? == expected { Ok(()) } else { Err(self.not_supported(otherwise)) }
    }

    fn must_be_on(&self, otherwise: &'static str) -> Result<(), OptionError> {
        if self.flag()? { Ok(()) } else { Err(self.not_supported(otherwise)) }
    }

    fn must_be_off(&self, what: &'static str) -> Result<(), OptionError> {
        if self.flag()? { Err(self.not_supported(what)) } else { Ok(()) }
    }

    fn unknown(&self) -> OptionError {
        OptionError::Unknown { letter: self.letter, name: self.name.into() }
    }

    fn not_supported(&self, what: &'static str) -> OptionError {
        let option = match self.value {
            Some(value) => format!("-{} {}={value}", self.letter, self.name),
            None => format!("-{} {}", self.letter, self.name),
        };
        NotSupported { option, what }.into()
    }
}
