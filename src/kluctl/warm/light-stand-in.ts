/**
 * The stand-in for machines that have Perl, as Debian's always do: what it says to the fork server is what the other one
 * says, and it starts in less than half of the time. Five of them start for each kluctl.
 */
import { access, constants } from "node:fs/promises";
import { confining } from "../../jail/launcher.ts";
import type { StandInPlaces } from "./stand-in.ts";

const perl = "/usr/bin/perl";

/** Linux's numbers of what Perl has no word for without a module. The layouts below are those of 64 bits, low byte first. */
const systemCalls: Readonly<Record<string, { readonly sendmsg: number; readonly tee: number }>> = {
  x64: { sendmsg: 46, tee: 276 },
  arm64: { sendmsg: 211, tee: 77 },
};

/**
 * Else it loads the locale that the environment names, which takes a third as long as all the rest, and complains about
 * one that the machine does not have, in the middle of what kluctl reads.
 */
export const lightEnvironment: Readonly<Record<string, string>> = { PERL_SKIP_LOCALE_INIT: "1" };

export async function canBeLight(): Promise<boolean> {
  if (systemCalls[process.arch] === undefined) return false;
  return access(perl, constants.X_OK).then(
    () => true,
    () => false,
  );
}

/** The file that is run. What comes after it may be padding. */
export function toLightStandIn({ socket, python, renderersIn }: StandInPlaces): string {
  const places = [socket, python, renderersIn].map(quote).join(", ");
  const calls = systemCalls[process.arch];
  return `#!${perl}
my ($socket, $python, $renderers_in, $sendmsg, $tee) = (${places}, ${calls?.sendmsg}, ${calls?.tee});
${program}__END__
`;
}

export interface JailedStandInPlaces extends StandInPlaces {
  /** What confines a renderer that no server takes, as the launcher reads it; what it may read is added to it. */
  readonly jail: string;
  /** Whether it is another Python than kluctl's, which finds its own libraries. */
  readonly foreign: boolean;
}

/**
 * The stand-in of previews. Where no server takes a renderer, it starts the real Python in a jail. Nothing runs unconfined,
 * and nothing but kluctl's renderers runs at all.
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

/** Tells the jail of a renderer that starts cold which directories it may read, a line for each. */
export const readsVariable = "TOWLINE_RENDERER_READS";
/** Shows the fork server which run a renderer belongs to. */
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

/** What both stand-ins do: find out what they are started for, and hand it over to the fork server. */
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
