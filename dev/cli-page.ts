/** The reference of the command line, made from the commands themselves. */
import type { Command, Option } from "commander";
import { format, resolveConfig } from "prettier";
import { wholeProgram } from "../src/cli/program.ts";

const introduction = `<!-- Written by \`npm run docs\` from src/cli/. Change it there. -->

# Command line

What \`towline --help\` and the help of each command say.

- Commands that look at the cluster take the kubeconfig of whoever calls: \`--kubeconfig\`, \`KUBECONFIG\`, \`~/.kube/config\`. A
  server's configuration is not needed for them, but is taken if it is given.
- What the server remembers of deliveries and previews is in its Redis: for these, give the server's configuration, or ask in
  its pod: \`kubectl exec deploy/towline -- towline get deliveries\`.
- Errors and progress go to stderr, results to stdout. \`-o json\` and \`-o yaml\` are for programs.
- Colours are used on a terminal only, and not with \`NO_COLOR\`.
- Where \`[options]\` stands for the server's configuration, every key of it is an option: [configuration](configuration.md).
- Exit codes, unless a command says otherwise: 0, it worked; 1, it failed; 2, the command line or the configuration is wrong.
`;

/** The page as it is in docs/cli.md. */
export async function cliPage(): Promise<string> {
  const program = await wholeProgram();
  const commands = leavesOf(program, []);
  const sections = commands.map(({ name, command }) => `## ${name}\n\n\`\`\`text\n${helpOf(command)}\n\`\`\``);
  const list = commands.map(({ name, command }) => `- [\`${name}\`](#${anchorOf(name)}): ${command.description()}`);
  const page = [introduction, list.join("\n"), ...sections].join("\n\n");
  return format(page, { ...(await resolveConfig(import.meta.filename)), parser: "markdown" });
}

interface Leaf {
  readonly name: string;
  readonly command: Command;
}

/** Commands that do something, unlike those that only hold others. */
function leavesOf(command: Command, path: readonly string[]): Leaf[] {
  if (command.commands.length === 0) return [{ name: ["towline", ...path].join(" "), command }];
  return command.commands.flatMap((inner) => leavesOf(inner, [...path, inner.name()]));
}

function helpOf(command: Command): string {
  let text = "";
  command.configureOutput({ writeOut: (words) => (text += words), getOutHelpWidth: () => 110 });
  command.configureHelp({ visibleOptions: (of) => of.options.filter((option) => !isOfConfiguration(option)) });
  command.outputHelp();
  return text.trim();
}

/** They are in configuration.md, and would be here once for each command that reads the configuration. */
function isOfConfiguration({ long, description }: Option): boolean {
  return long !== "--config" && /\(TOWLINE_\w+\)$/.test(description);
}

function anchorOf(name: string): string {
  return name.replaceAll(" ", "-");
}
