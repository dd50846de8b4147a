/**
 * Runs the commands of the documentation in a real bash as a reader would paste them. Every program that they call is
 * replaced by one of ours, which decides: it runs the real program, asks it whether it would accept these arguments, or
 * looks the arguments up in the list of programs that are not available here.
 */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { text as textOf } from "node:stream/consumers";
import { join } from "node:path";
import { fromMarkdown } from "mdast-util-from-markdown";
import { onTestFinished } from "vitest";
import { notRun, objectionTo } from "./foreign-commands.ts";

export const root = join(import.meta.dirname, "../..");

export interface Block {
  readonly file: string;
  readonly line: number;
  readonly text: string;
  /** The output that the page states: the block below it if that is marked `text exact`. */
  readonly prints?: string | undefined;
}

const programs = [
  "towline",
  "kubectl",
  "helm",
  "kluctl",
  "npm",
  "npx",
  "curl",
  "openssl",
  "git",
  ...Object.keys(notRun),
];

function documentedPages(): readonly string[] {
  const pages = ["docs", "examples/deployments", "examples/shop"].flatMap((directory) =>
    readdirSync(join(root, directory))
      .filter((name) => name.endsWith(".md"))
      .map((name) => `${directory}/${name}`),
  );
  return ["README.md", "CONTRIBUTING.md", "SECURITY.md", "chart/README.md", ...pages];
}

/** Every block of shell: those marked as such, and unmarked ones that begin with a known program. */
export function documentedBlocks(): readonly Block[] {
  return documentedPages().flatMap((file) => {
    const found: Block[] = [];
    const visit = (node: MarkdownNode, next?: MarkdownNode): void => {
      if (node.type === "code" && isShell(node)) {
        const prints = next?.lang === "text" && next.meta === "exact" ? next.value : undefined;
        found.push({ file, line: node.position?.start.line ?? 0, text: node.value ?? "", prints });
      }
      node.children?.forEach((child, i, all) => visit(child, all[i + 1]));
    };
    visit(fromMarkdown(readFileSync(join(root, file), "utf8")) as MarkdownNode);
    return found;
  });
}

interface MarkdownNode {
  readonly type: string;
  readonly lang?: string | null;
  readonly meta?: string | null;
  readonly value?: string;
  readonly children?: readonly MarkdownNode[];
  readonly position?: { readonly start: { readonly line: number } };
}

/** Commands in a sentence or a table, which are abbreviated and contain placeholders. */
export function inlineCommands(): readonly Block[] {
  return documentedPages().flatMap((file) => {
    const found: Block[] = [];
    const visit = ({ type, value = "", position, children }: MarkdownNode): void => {
      const [program = "", word = ""] = value.split(/\s+/);
      const isCommand = programs.includes(program) && /^-?-?[a-z]/.test(word) && !value.includes("…");
      if (type === "inlineCode" && isCommand) found.push({ file, line: position?.start.line ?? 0, text: value });
      children?.forEach(visit);
    };
    visit(fromMarkdown(readFileSync(join(root, file), "utf8")) as MarkdownNode);
    return found;
  });
}

function isShell({ lang, value = "" }: MarkdownNode): boolean {
  if (lang) return ["sh", "bash", "shell", "console"].includes(lang);
  const first = value.split("\n").find((line) => line !== "" && !line.startsWith("#")) ?? "";
  return programs.includes(first.split(/\s/)[0] ?? "");
}

export interface Desk {
  /** The current directory of the commands. */
  readonly dir: string;
  /** Paths of the real programs. */
  readonly tools: Readonly<Record<"kubectl" | "helm" | "kluctl" | "promtool", string>>;
  readonly kubeconfig: string;
  /** The namespace that the documentation calls `shop`. */
  readonly namespace: string;
  /** A working copy whose HEAD was pushed. */
  readonly repo: string;
  readonly adminUrl: string;
  readonly webhooksUrl: string;
  readonly pageUrl: string;
  /** The APIs of git hosts, and a repository on one, by their addresses in the documentation. */
  readonly hosts: readonly Host[];
  /** Further variables that users have in their shell. */
  readonly variables: Readonly<Record<string, string>>;
  /** Lines of a server's log. */
  readonly log: string;
  /** Runs `towline` with the environment of the shell. */
  readonly towline: (argv: readonly string[], env: Readonly<Record<string, string>>) => Promise<Answer>;
}

interface Host {
  /** `https://git.example.com/api/repos/OWNER/REPO` */
  readonly documented: string;
  readonly real: string;
}

interface Answer {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export interface Shell {
  /** Runs a block and returns everything that is wrong with it; empty if it succeeded. */
  run(block: Block): Promise<readonly string[]>;
  /** The programs that were called. */
  readonly called: ReadonlySet<string>;
}

/** Sets up the programs that the commands find, in a directory with the files that they name. */
export async function useShell(desk: Desk): Promise<Shell> {
  const { dir, towline } = desk;
  const [bin, socket] = [join(dir, ".bin"), join(dir, ".towline")];
  const called = new Set<string>();
  mkdirSync(bin);
  writeFileSync(join(dir, ".log"), desk.log);
  for (const [name, script] of Object.entries(scripts(desk))) {
    writeFileSync(join(bin, name), `#!/bin/bash\n${header(name, dir)}\n${script}\n`);
    chmodSync(join(bin, name), 0o755);
  }
  const server = createServer((request, response) => {
    const answer = async () => {
      const asked = JSON.parse(await textOf(request)) as { program?: string; argv: string[] };
      const { program, argv, env = {} } = asked as typeof asked & { env?: Record<string, string> };
      if (program !== undefined) return void response.end(objectionTo(program, argv) ?? "");
      const { code, out, err } = await towline(argv, env);
      response.end(`${code}\n${code > 1 || (code === 1 && out === "") ? err : out}`);
    };
    answer().catch((error: unknown) => response.end(`99\n${String(error)}`));
  }).listen(socket);
  await once(server, "listening");
  onTestFinished(() => void server.close());

  let runs = 0;
  return {
    called,
    async run({ text, prints }) {
      const failures = join(dir, `.failures-${++runs}`);
      const script = `${preamble}\n${text}\n${epilogue}`;
      const env = { PATH: `${bin}:/usr/bin:/bin`, HOME: dir, FAILURES: failures, LANG: "C.UTF-8", ...desk.variables };
      const { code, out, err } = await new Promise<Answer>((resolve) => {
        const done = (error: Error | null, stdout: string, stderr: string) =>
          resolve({ code: Number((error as { code?: number } | null)?.code ?? 0), out: stdout, err: stderr });
        execFile("/bin/bash", ["--norc", "-c", script], { cwd: dir, env, maxBuffer: 64 * 1024 * 1024 }, done);
      });
      const noted = existsSync(failures) ? readFileSync(failures, "utf8").trim().split("\n") : [];
      for (const line of noted) if (line.startsWith("called ")) called.add(line.slice("called ".length));
      const wrong = noted.filter((line) => line !== "" && !line.startsWith("called "));
      if (code !== 0 && wrong.length === 0) wrong.push(`it ended with ${code}: ${err.trim().slice(-300)}`);
      if (prints !== undefined && out.trim() !== prints.trim()) wrong.push(`it prints ${JSON.stringify(out)}`);
      return wrong;
    },
  };
}

const preamble = `
set -e
command_not_found_handle() { echo "$1 is neither run by the test nor on its list" >> "$FAILURES"; return 127; }
before=$(compgen -v TOWLINE_ || true)`;

/** Fails if a block sets a variable that the server does not know. */
const epilogue = `
wait
if [ -n "$(compgen -v TOWLINE_ || true)" ]; then export $(compgen -v TOWLINE_); towline config validate > /dev/null; fi`;

function header(name: string, dir: string): string {
  return `
desk=${dir}
echo "called ${name}" >> "$FAILURES"
fail() { echo "${name} $*" >> "$FAILURES"; exit 1; }
# What was asked once with the same words is not asked again.
once() { local key; key=$(printf '%s\\0' "$@" | sha1sum | cut -c1-20); [ -e "$desk/.asked-$key" ] && return; local said; said=$("$@" 2>&1) || fail "$* : $(tail -c 400 <<< "$said")"; touch "$desk/.asked-$key"; }`;
}

function scripts(desk: Desk): Readonly<Record<string, string>> {
  const { dir, tools, namespace, adminUrl, webhooksUrl, pageUrl, hosts, repo, kubeconfig } = desk;
  const ask = `/usr/bin/curl -s --unix-socket ${join(dir, ".towline")} --data-binary @- http://towline/`;
  const listed = Object.fromEntries(
    Object.keys(notRun).map((name) => [
      name,
      `
wrong=$(/usr/bin/jq -n '{program: "${name}", argv: $ARGS.positional}' --args -- "$@" | ${ask})
[ -z "$wrong" ] || { echo "$wrong" >> "$FAILURES"; exit 1; }`,
    ]),
  );
  return {
    ...listed,
    towline: `
args=()
for arg in "$@"; do
  if [ "$arg" = FILE ]; then arg=push.json; fi
  if [ -e "$desk/$arg" ] && [[ $arg =~ ^[a-z] ]]; then arg=$desk/$arg; fi
  args+=("$arg")
done
answer=$(/usr/bin/jq -n '{argv: $ARGS.positional, env: ($ENV | with_entries(select(.key | startswith("TOWLINE_"))))}' --args -- "\${args[@]}" |
  ${ask})
code=\${answer%%$'\\n'*}
[ "$code" = 0 ] || fail "$* : exit code $code: $answer"
printf '%s\\n' "\${answer#*$'\\n'}"`,
    kubectl: `
export KUBECONFIG=${kubeconfig}
args=() there=1
for arg in "$@"; do
  case $arg in kluctl-system|towline|flux-system|argocd|helmreleases.*|shop-staging|validatingadmission*) there="" ;; esac
  if [ ! -e "$arg" ] && [ "$1 $2" != "create namespace" ]; then arg=$(sed -E 's/\\bshop\\b/${namespace}/g; s/^NAMESPACE$/${namespace}/; s/^NAME$/staging/' <<< "$arg"); fi
  # Where a test beside this one has installed the older API, its resource has the same name.
  case $arg in kluctldeployment|kluctldeployments) arg=kluctldeployments.gitops.kluctl.io ;; esac
  args+=("$arg")
done
verb=""; skip=""
for arg in "$@"; do
  if [ -n "$skip" ]; then skip=""; continue; fi
  case $arg in -n|--namespace|-l|-o) skip=1 ;; -*) ;; *) verb=$arg; break ;; esac
done
real() { ${tools.kubectl} "$@"; }
case $verb in
  logs) once ${tools.kubectl} "\${args[@]}" --help; cat "$desk/.log" ;;
  exec) once ${tools.kubectl} exec --help "\${args[@]}" ;;
  port-forward|top|scale) once ${tools.kubectl} "\${args[@]}" --help ;;
  auth) real "\${args[@]}" || true ;;
  create|apply|annotate|patch|delete|label)
    if [ -z "$there" ]; then once ${tools.kubectl} "\${args[@]}" --help; exit; fi
    forced=""; [[ " $* " = *" --server-side "* ]] && forced=--force-conflicts
    # Others may have made something of that name at the same time: then the API server has read it, too.
    known() { ${tools.kubectl} "$@" || ${tools.kubectl} "$@" 2>&1 | /usr/bin/grep AlreadyExists; }
    once known "\${args[@]}" --dry-run=server $forced ;;
  get|describe)
    for arg in "$@"; do if [ "$arg" = --watch ]; then once ${tools.kubectl} "\${args[@]}" --help; exit; fi; done
    if [ -z "$there" ]; then once ${tools.kubectl} "\${args[@]}" --help; echo towline; exit; fi
    real "\${args[@]}" || fail "$*" ;;
  *) fail "$* : the test does not know this verb" ;;
esac`,
    helm: `
case $1 in
  install) shift; once ${tools.helm} template "$@" ;;
  *) once ${tools.helm} "$@" --help ;;
esac`,
    promtool: `once ${tools.promtool} "$@"`,
    kluctl: `once ${tools.kluctl} "$@" --help`,
    npm: `
case "$1" in
  run) /usr/bin/jq -e --arg name "$2" '.scripts[$name]' ${join(root, "package.json")} > /dev/null || fail "$* : there is no such script" ;;
  test|ci|install|audit) ;;
  *) fail "$* : the test does not know this" ;;
esac`,
    npx: `for arg in "\${@:3}"; do [ -e "${root}/$arg" ] || fail "$* : there is no $arg"; done`,
    git: `exec /usr/bin/git -C ${repo} "$@"`,
    // Finding nothing is an error, in the pattern or in the text that is searched.
    grep: `/usr/bin/grep "$@" || fail "$* : finds nothing"`,
    curl: `
args=() body="" data=""
for arg in "$@"; do
  [ -n "$data" ] && { body=$arg; data=""; }
  [ "$arg" = -d ] && data=1
  arg=\${arg/http:\\/\\/127.0.0.1:9090/${adminUrl}}
  arg=\${arg/http:\\/\\/localhost:8090/${pageUrl}}
${hosts.map(({ documented, real }) => `  [[ $arg == ${documented}* ]] && arg=${real}\${arg#${documented}}`).join("\n")}
  arg=$(sed -E 's#^https://(towline.example.com|WEBHOOK-ADDRESS)/(webhooks/)?#${webhooksUrl.replace(/webhooks\/gitea$/, "")}\\2#; s#/webhooks/github$#/webhooks/gitea#' <<< "$arg")
  args+=("$arg")
done
if [[ $body = "{"* ]]; then /usr/bin/jq -e . > /dev/null <<< "$body" || fail "$* : its body is no JSON"; fi
case "$*" in
  *metrics*9090*|*9090*metrics*)
    said=$(/usr/bin/curl "\${args[@]}") || fail "$*"
    # A series that has not counted yet is not there; its name is.
    awk '{print} /^# TYPE/ {print $3 "{} 0"; if ($4 == "histogram") {print $3 "_sum{} 0"; print $3 "_count{} 0"}}' <<< "$said" ;;
  *127.0.0.1*|*localhost*|*towline.example.com/*http_code*|*http_code*towline.example.com/*|*WEBHOOK-ADDRESS*) /usr/bin/curl "\${args[@]}" || fail "$*" ;;
  *deliveries*) echo '[{"event": "push", "status_code": 202, "delivered_at": "2026-01-02T03:04:05Z"}]' ;;
${hosts.map(({ documented }) => `  *${documented}*) /usr/bin/curl -sS "\${args[@]}" || fail "$*" ;;`).join("\n")}
  *) once /usr/bin/curl --help ;;
esac`,
  };
}
