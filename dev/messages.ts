/** `npm run messages`: prints all texts for users in the program, file by file, for review. */
import { join } from "node:path";
import { parseArgs } from "node:util";
import { findMessages } from "./language/messages.ts";
import { bannedInMessages, findOffences } from "./language/vocabulary.ts";

const help = `npm run messages [-- options] [part of a path …]

Prints every message of the program (help, errors, log lines, conditions, comments, the page), by the file that holds it.

  --banned   Print only messages that use a word which the vocabulary bans, and the word to use instead
  --help     Show this text
`;

const { values: options, positionals } = parseArgs({
  options: { banned: { type: "boolean", default: false }, help: { type: "boolean", default: false } },
  allowPositionals: true,
});

if (options.help) process.stdout.write(help);
else print();

function print(): void {
  const wanted = findMessages(join(import.meta.dirname, "..")).filter(
    ({ file }) => positionals.length === 0 || positionals.some((part) => file.includes(part)),
  );
  let last = "";
  let count = 0;
  for (const { file, line, kind, text } of wanted) {
    const offences = findOffences(text, bannedInMessages);
    if (options.banned && offences.length === 0) continue;
    if (file !== last) process.stdout.write(`\n${file}\n`);
    last = file;
    count++;
    const advice = options.banned ? offences.map(({ word, instead }) => `  [${word}: ${instead}]`).join("") : "";
    process.stdout.write(`${String(line).padStart(5)}  ${kind.padEnd(5)}  ${text}${advice}\n`);
  }
  process.stdout.write(`\n${count} messages\n`);
}
