#!/usr/bin/env node
/** The command `towline`. */
import { text } from "node:stream/consumers";

// An older Node could not even read what is imported below, and would say so with a SyntaxError.
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < 22 || (major === 22 && minor < 19)) {
  process.stderr.write(`towline needs Node 22.19 or newer; this is Node ${process.versions.node}\n`);
  process.exit(1);
}
const { createPerson } = await import("./cli/person.ts");
const { runProgram } = await import("./cli/program.ts");
const { useProxies } = await import("./cli/proxies.ts");

// A reader that has seen enough (`towline config print | head`) is no error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
});

useProxies(process.env);
const person = createPerson(process.stdin, (words) => void process.stderr.write(words));

process.exitCode = await runProgram(process.argv.slice(2), {
  env: process.env,
  // Only the server needs the whole house; `--help` does not wait for it.
  serve: async (config, log, reading) => {
    const { serve } = await import("./cli/serve.ts");
    return serve(config, log, async (...args) => (await import("./app.ts")).startApp(...args, reading));
  },
  doctor: async (options) => (await import("./app/doctor.ts")).runDoctor(options),
  stdin: () => {
    if (process.stdin.isTTY) process.stderr.write("reading what is typed here; Ctrl-D ends it\n");
    return text(process.stdin);
  },
  ask: process.stdin.isTTY && process.stderr.isTTY ? (question) => person.ask(question) : undefined,
  columns: process.stdout.isTTY ? process.stdout.columns : undefined,
  out: (words) => void process.stdout.write(words),
  err: (words) => void process.stderr.write(words),
});
person.close();
