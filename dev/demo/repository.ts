/** The shop's repository on the git host, with the webhook, as a team would set it up. */
import { randomBytes } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { packageRoot } from "../package-root.ts";
import { createGiteaClient, type GiteaClient, type GiteaRepository, reporterScopes } from "../parts/gitea-client.ts";
import type { GiteaLogin } from "../parts/gitea.ts";
import { createWorkCopy, type WorkCopy } from "../parts/work-copy.ts";
import type { DemoServer } from "./server.ts";

const shop = join(packageRoot, "examples/shop");

/** The shop on any git host, after its first push. */
export interface PushedShop {
  readonly repository: Pick<GiteaRepository, "owner" | "name" | "cloneUrl">;
  readonly workCopy: WorkCopy;
  /** The first commit of `main` and `release`. */
  readonly firstCommit: string;
  /** The head of the branch on the git host; `undefined` if there is no such branch. */
  head(branch: string): Promise<Commit | undefined>;
}

export interface ShopRepository extends PushedShop {
  readonly host: GiteaClient;
  readonly repository: GiteaRepository;
  /** The account that the server writes with; it has only the rights it needs. */
  readonly reporter: GiteaLogin;
  /** Login for the git host's pages. */
  readonly login: { readonly user: string; readonly password: string };
}

export interface Commit {
  readonly id: string;
  readonly message: string;
}

/** Pushes the shop to `main` and `release`. Returns the commit. */
export async function fillRepository(workCopy: WorkCopy): Promise<string> {
  await workCopy.git("config", "user.name", "Ada"); // for users who continue by hand
  await workCopy.git("config", "user.email", "ada@example.com");
  const firstCommit = await workCopy.push(await readFiles(shop), { message: "The shop" });
  await workCopy.git("push", "--quiet", "--set-upstream", "origin", "HEAD:refs/heads/release", "main");
  return firstCommit;
}

/**
 * Pushes before the webhook is created: the first push is not shown. With the shop of another host, its commits are
 * pushed.
 */
export async function createShopRepository(
  login: GiteaLogin,
  dir: string,
  moved?: PushedShop,
): Promise<ShopRepository> {
  const host = createGiteaClient(login);
  const password = randomBytes(9).toString("base64url");
  const account = { login_name: login.user, source_id: 0, password, must_change_password: false };
  await host.call("PATCH", `/admin/users/${login.user}`, account);
  await host.createOrganization("example");
  const repository = await host.createRepository("example", "shop");
  const reporter = await host.createCollaborator(repository, "towline", reporterScopes);
  const workCopy = await createWorkCopy(dir, repository.pushUrl); // leaves an existing one its commits
  const firstCommit = moved?.firstCommit ?? (await fillRepository(workCopy));
  if (moved) await workCopy.git("push", "--quiet", "origin", "main", `${firstCommit}:refs/heads/release`);
  return {
    host,
    repository,
    workCopy,
    firstCommit,
    reporter,
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
  await host.registerWebhook(repository, {
    ...webhook,
    events: ["push", "delete", "pull_request_only", "pull_request_sync"],
  });
}

export interface Release {
  readonly file: string;
  readonly from: string;
  readonly to: string;
  /** Commit message. */
  readonly message: string;
}

/** Pushes the working copy with one value changed. Returns the commit. */
export async function pushRelease(
  { workCopy }: Pick<PushedShop, "workCopy">,
  release: Release,
  branch = "main",
): Promise<string> {
  const { file, from, to, message } = release;
  const text = await readFile(join(workCopy.dir, file), "utf8");
  if (!text.includes(from)) throw new Error(`examples/shop/${file} does not contain "${from}".`);
  return workCopy.push({ [file]: text.replace(from, to) }, { branch, message });
}

/** Updates the working copy to `main` on the git host, for users who continue by hand. */
export async function followMain({ workCopy }: ShopRepository): Promise<void> {
  await workCopy.git("checkout", "--quiet", "main");
  await workCopy.git("pull", "--quiet", "--ff-only", "origin", "main");
}

async function readFiles(dir: string): Promise<Record<string, string>> {
  const entries = await readdir(dir, { recursive: true, withFileTypes: true });
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const files = await Promise.all(
    paths.map(async (path) => [path.slice(dir.length + 1), await readFile(path, "utf8")]),
  );
  return Object.fromEntries(files) as Record<string, string>;
}
