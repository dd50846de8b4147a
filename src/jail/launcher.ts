/**
 * The program that creates a jail around itself and then becomes the command. It is written in Perl because Perl starts
 * in a millisecond and makes system calls without a library of ours; the same text is part of the stand-in that starts
 * the renderers of previews.
 */
import process from "node:process";

/**
 * Numbers of system calls that Perl has no function for. Those of Landlock and close_range are the same on both
 * architectures.
 */
const numbers: Readonly<
  Record<string, Record<"prctl" | "seccomp" | "prlimit" | "capset" | "sendmsg" | "recvmsg", number>>
> = {
  x64: { prctl: 157, seccomp: 317, prlimit: 302, capset: 126, sendmsg: 46, recvmsg: 47 },
  arm64: { prctl: 167, seccomp: 277, prlimit: 261, capset: 91, sendmsg: 211, recvmsg: 212 },
};

/**
 * Perl code that defines `confine`, which takes the result of `toText`. It ends the process with status 125 if it
 * cannot create the jail.
 */
export function confining(arch: string = process.arch): string {
  const { prctl, seccomp, prlimit, capset } = numbers[arch] ?? { prctl: 0, seccomp: 0, prlimit: 0, capset: 0 };
  return `my ($prctl, $seccomp, $prlimit, $capset) = (${prctl}, ${seccomp}, ${prlimit}, ${capset});\n${program}`;
}

export function launcher(arch: string = process.arch): string {
  const { sendmsg, recvmsg } = numbers[arch] ?? { sendmsg: 0, recvmsg: 0 };
  return `${confining(arch)}
my ($sendmsg, $recvmsg) = (${sendmsg}, ${recvmsg});
${watching}
my $jail = shift @ARGV;
my $command = shift @ARGV;
if ($jail =~ /^watched /m) { watch($jail) } else { confine($jail) }
exec { $command } $command, @ARGV;
print STDERR "$command cannot be started: $!\\n";
exit 126;
`;
}

/**
 * The launcher stays the parent of the command, and the kernel asks it before any process in the jail connects. It
 * reads the address and allows or denies the call. That is sufficient for what a project can make kluctl do. A program
 * of the project's own could change the address in between, but then it still reaches only what Landlock allows.
 */
const watching = String.raw`
# As the kernel has them: of an address to send with a descriptor, and of what it asks and is answered.
sub message {
  return pack("Q L x4 P Q P Q l x4", 0, 0, $_[0], 1, $_[1], length $_[1], 0);
}
my ($ask_receive, $ask_answer, $ask_valid) = (0xc0502100, 0xc0182101, 0x40082102);

# Returns in the child, confined.
sub watch {
  my ($jail) = @_;
  socketpair(my $here, my $there, 1, 1, 0) or refuse("no pair of sockets: $!");
  my $child = fork;
  refuse("no process: $!") unless defined $child;
  my $byte = "+";
  my $vector = pack("P Q", $byte, 1);
  if ($child == 0) {
    close $here;
    my $listener = confine($jail);
    return unless defined $listener;
    my $descriptor = pack("Q l2 l x4", 20, 1, 1, $listener);
    my $message = message($vector, $descriptor);
    syscall($sendmsg, fileno($there), $message, 0) == 1 or refuse("nobody watches: $!");
    return;
  }
  close $there;
  $SIG{$_} = "IGNORE" for qw(TERM INT HUP);
  $SIG{CHLD} = sub { };
  my $descriptor = pack("x24");
  my $message = message($vector, $descriptor);
  my $listener = syscall($recvmsg, fileno($here), $message, 0) == 1 ? unpack("x16 l", $descriptor) : undef;
  close $here;
  if (defined $listener) { answer($listener, $jail, $child) }
  else { waitpid($child, 0) }
  exit($? & 127 ? 128 + ($? & 127) : $? >> 8);
}

# Until the child has ended.
sub answer {
  my ($listener, $jail, $child) = @_;
  my ($ports) = $jail =~ /^ports (.*)$/m;
  my %ports = map { $_ => 1 } split / /, $ports // "";
  my @sockets = $jail =~ /^sockets (.*)$/mg;
  open(my $asked, "+<&=", $listener) or refuse("nobody can be asked: $!");
  my $each = "";
  vec($each, $listener, 1) = 1;
  until (waitpid($child, 1) == $child) {
    my $ready = $each;
    # Its end may come right before.
    next unless select($ready, undef, undef, 0.1) > 0;
    my $question = pack("x80");
    ioctl($asked, $ask_receive, $question) or next;
    my ($id, $pid, $address, $length) = unpack("Q L x28 Q2", $question);
    my $may = may_connect(read_memory($pid, $address, $length), \%ports, \@sockets);
    my $still = pack("Q", $id);
    ioctl($asked, $ask_valid, $still) or next; # its number may be somebody else's by now
    my $answer = pack("Q q l L", $id, 0, $may ? 0 : -13, $may ? 1 : 0);
    ioctl($asked, $ask_answer, $answer);
  }
}

sub read_memory {
  my ($pid, $address, $length) = @_;
  return "" if $length < 2 || $length > 128;
  sysopen(my $memory, "/proc/$pid/mem", 0) or return "";
  sysseek($memory, $address, 0) or return "";
  my $bytes = "";
  return (sysread($memory, $bytes, $length) // 0) == $length ? $bytes : "";
}

sub may_connect {
  my ($bytes, $ports, $sockets) = @_;
  return 0 if length $bytes < 8;
  my $family = unpack("S", $bytes);
  if ($family == 2) {
    my ($port, @address) = unpack("x2 n C4", $bytes);
    return "@address" eq "127 0 0 1" && $ports->{$port};
  }
  return 0 unless $family == 1;
  my $path = unpack("x2 Z*", $bytes);
  return 0 if $path =~ m{/\.\.(?:/|\z)};
  return scalar grep { index($path, "$_/") == 0 } @$sockets;
}
`;

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
  my (@files, @ports, @limits, %demands, @kept, $filter, $watched, $most, $wants_ports);
  for (split /\n/, $_[0]) {
    my ($name, $value) = split / /, $_, 2;
    if ($name eq "read" || $name eq "execute" || $name eq "write") { push @files, [$name, $value] }
    elsif ($name eq "ports") { $wants_ports = 1; @ports = split / /, $value }
    elsif ($name eq "filter") { $filter = pack("H*", $value) }
    elsif ($name eq "watched") { $watched = pack("H*", $value) }
    elsif ($name eq "sockets") { next }
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

  my ($mode, $flags, $listens) = (1, 0, 8);
  if (defined $watched) {
    my $code = pack("S x6 P", length($watched) / 8, $watched);
    my $listener = syscall($seccomp, $mode, $listens, $code);
    return $listener if $listener >= 0;
    refuse("the kernel does not let connections be watched: $!") if $demands{network};
  }
  my $code = pack("S x6 P", length($filter) / 8, $filter);
  syscall($seccomp, $mode, $flags, $code) == 0 or refuse("seccomp: $!");
  return;
}
`;
