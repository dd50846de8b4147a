/**
 * The stand-in for machines with Perl, which Debian always has. It speaks the same protocol to the fork server as the
 * Python one, and starts in less than half the time. Each kluctl starts five of them.
 */
import { access, constants } from "node:fs/promises";
import { confining } from "../../jail/launcher.ts";
import type { StandInPlaces } from "./stand-in.ts";

const perl = "/usr/bin/perl";

/**
 * Linux's numbers of system calls that Perl cannot make without a module. The structures below are for 64-bit
 * little-endian machines.
 */
const systemCalls: Readonly<Record<string, { readonly sendmsg: number; readonly tee: number }>> = {
  x64: { sendmsg: 46, tee: 276 },
  arm64: { sendmsg: 211, tee: 77 },
};

/**
 * Without it, Perl loads the locale that the environment names, which takes a third as long as everything else. If the
 * machine does not have that locale, Perl also prints a warning into the output that kluctl reads.
 */
export const lightEnvironment: Readonly<Record<string, string>> = { PERL_SKIP_LOCALE_INIT: "1" };

export async function canBeLight(): Promise<boolean> {
  if (systemCalls[process.arch] === undefined) return false;
  return access(perl, constants.X_OK).then(
    () => true,
    () => false,
  );
}

/** Returns the executable's text. Padding may follow it. */
export function toLightStandIn({ socket, python, renderersIn }: StandInPlaces): string {
  const places = [socket, python, renderersIn].map(quote).join(", ");
  const calls = systemCalls[process.arch];
  return `#!${perl}
my ($socket, $python, $renderers_in, $sendmsg, $tee) = (${places}, ${calls?.sendmsg}, ${calls?.tee});
${program}__END__
`;
}

export interface JailedStandInPlaces extends StandInPlaces {
  /**
   * The jail for a renderer that no fork server accepts, in the launcher's format; the paths it may read are appended.
   */
  readonly jail: string;
  /** Whether this is another Python than kluctl's; it finds its own libraries. */
  readonly foreign: boolean;
}

/**
 * Returns the stand-in for previews. If no fork server accepts a renderer, it starts the real Python in a jail. Nothing
 * runs unconfined, and nothing but kluctl's renderers runs at all.
 */
export function toJailedStandIn({ jail, foreign, ...places }: JailedStandInPlaces): string {
  const { socket, python, renderersIn } = places;
  const calls = systemCalls[process.arch];
  return `#!${perl}
my ($socket, $python, $renderers_in, $own_jail) = (${[socket, python, renderersIn, jail].map(quote).join(", ")});
my ($sendmsg, $tee) = (${calls?.sendmsg}, ${calls?.tee});
${foreign ? "delete $ENV{PYTHONHOME};" : ""}
${confining()}
${handingOver}
${jailedProgram}__END__
`;
}

/** Variable with the directories that a renderer that starts cold may read, one per line. */
export const readsVariable = "TOWLINE_RENDERER_READS";
/** Variable with the pass that shows the fork server which run a renderer belongs to. */
export const passVariable = "TOWLINE_RENDERER_PASS";

const jailedProgram = String.raw`
$SIG{PIPE} = "IGNORE";
unless (is_kluctls()) {
  print STDERR "not confined: kluctl starts a Python that is no renderer of its own\n";
  exit 125;
}
exit 0 if has_nothing_to_do();
my $status = hand_over();
exit $status if defined $status;
$SIG{PIPE} = "DEFAULT";
my $reads = join "", map { "read $_\n" } split /\n/, $ENV{${readsVariable}};
confine($own_jail . $reads);
exec { $python } $python, @ARGV;
exit 127;
`;

function quote(text: string): string {
  return `'${text.replace(/[\\']/g, "\\$&")}'`;
}

/** Shared by both stand-ins: determines what they were started for, and hands the renderer over to the fork server. */
const handingOver = String.raw`
delete $ENV{PERL_SKIP_LOCALE_INIT};

sub is_kluctls {
  return $ARGV[0] =~ m{/main\.py\z} && index($ARGV[0], $renderers_in) >= 0 if @ARGV == 1;
  return @ARGV == 2 && $ARGV[0] eq "-c" && index($ARGV[1], "import platform") == 0;
}

# kluctl starts four renderers and has work for two at most times; the others it only tells to end, and a Python that
# starts for nothing else costs as much as all of this. So it waits here for what kluctl says, which stays unread.
sub has_nothing_to_do {
  return 0 unless @ARGV == 1 && -p STDIN;
  my $ready = "\1"; # descriptor 0
  return 0 unless select($ready, undef, undef, undef) == 1;
  pipe(my $copy, my $to_copy) or return 0;
  my $length = syscall($tee, 0, fileno($to_copy), 64, 2); # without waiting
  return 1 if $length == 0; # its end
  return 0 if $length < 0;
  sysread($copy, my $said, $length);
  return $said eq qq({"cmd":"exit","templates":null,"opts":null}\n);
}

# As Python's marshal has them.
sub text { return "u" . pack("V/a*", $_[0]) }
sub bytes { return "s" . pack("V/a*", $_[0]) }

sub send_all {
  my ($conn, $data) = @_;
  while (length $data) {
    my $sent = syswrite($conn, $data) or return 0;
    substr($data, 0, $sent, "");
  }
  return 1;
}

# Returns the exit status, or nothing when there is no server that would take it.
sub hand_over {
  my $cwd = readlink("/proc/self/cwd");
  return unless defined $cwd;
  my $environ = join "", map { bytes($_) . bytes($ENV{$_}) } keys %ENV;
  my $request = "(" . pack("V", 3) . "[" . pack("V", scalar @ARGV) . join("", map { text($_) } @ARGV)
    . bytes($cwd) . "{" . $environ . "0";
  my ($head, $seconds) = (pack("Q>", length $request), pack("q2", 5, 0));
  socket(my $conn, 1, 1, 0) or return;
  setsockopt($conn, 1, $_, $seconds) for 20, 21; # to receive, to send
  connect($conn, pack("S a*", 1, "$socket\0")) or return;
  my $vector = pack("P Q", $head, length $head);
  my $descriptors = pack("Q l2 l3 x4", 28, 1, 1, 0, 1, 2);
  my $message = pack("Q L x4 P Q P Q l x4", 0, 0, $vector, 1, $descriptors, length $descriptors, 0);
  return unless syscall($sendmsg, fileno($conn), $message, 0) == length $head;
  return unless send_all($conn, $request);
  sysread($conn, my $answer, 1) or return;
  return unless $answer eq "+";
  setsockopt($conn, 1, $_, pack("q2", 0, 0)) for 20, 21;
  return unless send_all($conn, "+");
  sysread($conn, my $status, 1) or return 137;
  return ord $status;
}
`;

const program = String.raw`${handingOver}
sub elsewhere {
  for my $folder (split /:/, $ENV{PATH}) {
    my $path = "$folder/python3";
    return $path if $path ne $0 && -x $path;
  }
  return $python;
}

$SIG{PIPE} = "IGNORE";
my $is_kluctls = is_kluctls();
exit 0 if $is_kluctls && has_nothing_to_do();
my $status = $is_kluctls ? hand_over() : undef;
exit $status if defined $status;
$SIG{PIPE} = "DEFAULT";
my $program = $is_kluctls ? $python : elsewhere();
# By its path: it would look for its own name in PATH, and find this file.
exec { $program } $program, @ARGV;
exit 127;
`;
