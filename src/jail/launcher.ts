/**
 * The program that makes a jail around itself and becomes the command. It is Perl because that starts in a millisecond and
 * calls the kernel without a library of ours; the same text is part of the stand-in that previews' renderers start with.
 */
import process from "node:process";

/** What the calls are known by that Perl has no word for. Landlock's, close_range's are the same everywhere. */
const numbers: Readonly<Record<string, { prctl: number; seccomp: number; prlimit: number; capset: number }>> = {
  x64: { prctl: 157, seccomp: 317, prlimit: 302, capset: 126 },
  arm64: { prctl: 167, seccomp: 277, prlimit: 261, capset: 91 },
};

/** Perl that defines `confine`, which takes what `toText` gives, and ends the process with 125 if it cannot. */
export function confining(arch: string = process.arch): string {
  const { prctl, seccomp, prlimit, capset } = numbers[arch] ?? { prctl: 0, seccomp: 0, prlimit: 0, capset: 0 };
  return `my ($prctl, $seccomp, $prlimit, $capset) = (${prctl}, ${seccomp}, ${prlimit}, ${capset});\n${program}`;
}

export function launcher(arch: string = process.arch): string {
  return `${confining(arch)}
my $jail = shift @ARGV;
confine($jail);
my $command = shift @ARGV;
exec { $command } $command, @ARGV;
print STDERR "$command cannot be started: $!\\n";
exit 126;
`;
}

const program = String.raw`
my ($create_ruleset, $add_rule, $restrict_self, $close_range) = (444, 445, 446, 436);

# Rights to files by the version that brought them. Those of a directory are no rights of a file.
my ($READ, $EXECUTE) = (4 | 8, 1);
my $WRITE = 2 | 16 | 32 | 128 | 256 | 512 | 4096;
my ($REFER, $TRUNCATE) = (8192, 16384);
my $of_files = 1 | 2 | 4 | 16384 | 32768;

sub refuse {
  print STDERR "not confined: $_[0]\n";
  exit 125;
}

sub landlock {
  my ($abi, $jail, $wants_ports, @ports) = @_;
  my $handled = $abi >= 5 ? 65535 : $abi >= 3 ? 32767 : $abi >= 2 ? 16383 : 8191;
  my $net = $abi >= 4 && $wants_ports ? 3 : 0;
  my $attributes = pack("Q Q Q", $handled, $net, $abi >= 6 ? 3 : 0);
  $attributes = substr($attributes, 0, $abi >= 6 ? 24 : $abi >= 4 ? 16 : 8);
  my $ruleset = syscall($create_ruleset, $attributes, length $attributes, 0);
  refuse("Landlock makes no rules: $!") if $ruleset < 0;
  for (@$jail) {
    my ($kind, $path) = @$_;
    my $access = $READ;
    $access |= $EXECUTE if $kind eq "execute";
    $access |= $WRITE | $REFER | $TRUNCATE if $kind eq "write";
    # O_PATH and O_CLOEXEC. What is not there needs no rule.
    sysopen(my $file, $path, 0x200000 | 0x80000) or next;
    $access &= $of_files unless -d $file;
    my $rule = pack("Q l", $access & $handled, fileno $file);
    my $type = 1;
    syscall($add_rule, $ruleset, $type, $rule, 0) == 0 or refuse("Landlock takes no rule for $path: $!");
  }
  for my $port ($net ? @ports : ()) {
    my $rule = pack("Q Q", 2, $port);
    my $type = 2;
    syscall($add_rule, $ruleset, $type, $rule, 0) == 0 or refuse("Landlock takes no rule for a port: $!");
  }
  syscall($restrict_self, $ruleset, 0) == 0 or refuse("Landlock does not confine: $!");
}

sub confine {
  my (@files, @ports, @limits, %demands, @kept, $filter, $most, $wants_ports);
  for (split /\n/, $_[0]) {
    my ($name, $value) = split / /, $_, 2;
    if ($name eq "read" || $name eq "execute" || $name eq "write") { push @files, [$name, $value] }
    elsif ($name eq "ports") { $wants_ports = 1; @ports = split / /, $value }
    elsif ($name eq "filter") { $filter = pack("H*", $value) }
    elsif ($name eq "limit") { push @limits, [split / /, $value] }
    elsif ($name eq "abi") { $most = $value + 0 }
    elsif ($name eq "demand") { $demands{$value} = 1 }
    elsif ($name eq "environment") { push @kept, $value }
    else { refuse("\"$name\" is not known") }
  }
  if (@kept) {
    for my $name (keys %ENV) {
      delete $ENV{$name} unless grep { index($name, $_) == 0 } @kept;
    }
  }
  refuse("this is not Linux") unless $^O eq "linux";
  refuse("there is no filter for this processor") unless length $filter;

  # Whatever else was left open; at worst it is there already that the command gets what we have.
  my ($from, $to) = (3, 0xffffffff);
  my $on_exec = 4;
  syscall($close_range, $from, $to, $on_exec);
  my ($no_new_privileges, $one) = (38, 1);
  syscall($prctl, $no_new_privileges, $one, 0, 0, 0) == 0 or refuse("no_new_privs: $!");
  # A server that runs as root keeps its user, and hands none of its powers on.
  my ($header, $none) = (pack("L l", 0x20080522, 0), pack("L6", 0, 0, 0, 0, 0, 0));
  syscall($capset, $header, $none);

  my $abi = syscall($create_ruleset, 0, 0, 1);
  $abi = 0 if $abi < 0;
  $abi = $most if defined $most && $abi > $most;
  refuse("this kernel has no Landlock, which keeps files apart") if $demands{files} && $abi < 1;
  refuse("the Landlock of this kernel has no rules for ports") if $demands{network} && $abi < 4;
  landlock($abi, \@files, $wants_ports, @ports) if $abi > 0;

  for (@limits) {
    my ($resource, $value) = map { $_ + 0 } @$_;
    my ($old, $lower) = (pack("Q2", 0, 0), 0);
    my $none = 0;
    syscall($prlimit, $none, $resource, $none, $old) == 0 or refuse("limit $resource: $!");
    my (undef, $hard) = unpack("Q2", $old);
    my $most = $value < $hard ? $value : $hard;
    my $new = pack("Q2", $most, $most);
    syscall($prlimit, $none, $resource, $new, $none) == 0 or refuse("limit $resource: $!");
  }

  my $code = pack("S x6 P", length($filter) / 8, $filter);
  my ($mode, $flags) = (1, 0);
  syscall($seccomp, $mode, $flags, $code) == 0 or refuse("seccomp: $!");
}
`;
