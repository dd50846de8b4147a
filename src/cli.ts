#!/usr/bin/env node
/** The command `towline`. */
import { runProgram } from "./cli/program.ts";
import { serve } from "./cli/serve.ts";

// A reader that has seen enough (`towline config print | head`) is no error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
});

process.exitCode = await runProgram(process.argv.slice(2), {
  env: process.env,
  // Only the server needs the whole house; `--help` does not wait for it.
  serve: (config, log) => serve(config, log, async (...args) => (await import("./app.ts")).startApp(...args)),
  doctor: async (options) => (await import("./app/doctor.ts")).runDoctor(options),
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
});
