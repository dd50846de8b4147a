/** The shop on the git host, with the webhook, as a team would have set it up. */
import { randomBytes } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { createGiteaClient, type GiteaClient, type GiteaRepository } from "../parts/gitea-client.ts";
import type { GiteaLogin } from "../parts/gitea.ts";
import { createWorkCopy, type WorkCopy } from "../parts/work-copy.ts";
import type { DemoServer } from "./server.ts";

const shop = join(import.meta.dirname, "../../examples/shop");

export interface ShopRepository {
  readonly host: GiteaClient;
  readonly repository: GiteaRepository;
  readonly workCopy: WorkCopy;
  /** The commit that `main` and `release` start with. */
  readonly firstCommit: string;
  /** For the git host's pages. */
  readonly login: { readonly user: string; readonly password: string };
  /** Where the branch is, by the git host; `undefined` if there is no such branch. */
  head(branch: string): Promise<Commit | undefined>;
}

export interface Commit {
  readonly id: string;
  readonly message: string;
}

/** Before there is a webhook: the first push is nothing to tell. */
export async function createShopRepository(login: GiteaLogin, dir: string): Promise<ShopRepository> {
  const host = createGiteaClient(login);
  const password = randomBytes(9).toString("base64url");
  const account = { login_name: login.user, source_id: 0, password, must_change_password: false };
  await host.call("PATCH", `/admin/users/${login.user}`, account);
  await host.createOrganization("example");
  const repository = await host.createRepository("example", "shop");
  const workCopy = await createWorkCopy(dir, repository.pushUrl);
  await workCopy.git("config", "user.name", "Ada"); // for whoever goes on from here by hand
  await workCopy.git("config", "user.email", "ada@example.com");
  const firstCommit = await workCopy.push(await readFiles(shop), { message: "The shop" });
  await workCopy.git("push", "--quiet", "--set-upstream", "origin", "HEAD:refs/heads/release", "main");
  return {
    host,
    repository,
    workCopy,
    firstCommit,
    login: { user: login.user, password },
    async head(branch) {
      const path = `/repos/${repository.owner}/${repository.name}/branches`;
      const branches = await host.call<{ name: string; commit: Commit }[]>("GET", path);
      return branches.find(({ name }) => name === branch)?.commit;
    },
  };
}

export async function connectWebhook(
  { host, repository }: ShopRepository,
  webhook: DemoServer["webhook"],
): Promise<void> {
  await host.registerWebhook(repository, { ...webhook, events: ["push", "delete"] });
}

const release = { file: "versions.yaml", from: "frontend: 1.4.2", to: "frontend: 1.5.0" } as const;
export const releaseMessage = "Raise frontend to 1.5.0";

/** The release that the demo plays. Returns the commit. */
export async function raiseFrontend({ workCopy }: ShopRepository): Promise<string> {
  const text = await readFile(join(workCopy.dir, release.file), "utf8");
  if (!text.includes(release.from)) throw new Error(`examples/shop/${release.file} does not say "${release.from}".`);
  return workCopy.push({ [release.file]: text.replace(release.from, release.to) }, { message: releaseMessage });
}

async function readFiles(dir: string): Promise<Record<string, string>> {
  const entries = await readdir(dir, { recursive: true, withFileTypes: true });
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const files = await Promise.all(
    paths.map(async (path) => [path.slice(dir.length + 1), await readFile(path, "utf8")]),
  );
  return Object.fromEntries(files) as Record<string, string>;
}
