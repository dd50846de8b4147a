/** A server, as far as git is concerned, to be killed: has git ask a remote that does not answer. */
import { startGitStarter } from "../../../src/source/git-starter.ts";

const [home = "", url = ""] = process.argv.slice(2);
const { git } = startGitStarter({ home, env: process.env });
await git(["ls-remote", "--", url], { protocols: ["http"], group: true });
