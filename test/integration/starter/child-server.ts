/** A server process for tests that kill it: runs git against a remote that does not answer. */
import { startStarter } from "../../../src/starter/starter.ts";

const [home = "", url = ""] = process.argv.slice(2);
const { git } = startStarter({ home, env: process.env });
await git(["ls-remote", "--", url], { protocols: ["http"], group: true });
