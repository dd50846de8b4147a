/** A server with the page as a browser gets it, built from the current sources. */
import { buildPage } from "../../dev/page-build.ts";
import { useBrowserPage } from "./chromium.ts";
import { pageToken } from "./page.ts";
import { type Towline, useTowline } from "./towline.ts";
import type { TestWorld } from "./world.ts";

export type PageServer = Towline & { readonly pageUrl: string };

/** Starts a server with the page; its token logs users in. */
export async function usePageServer(world: TestWorld, extra: Record<string, string> = {}): Promise<PageServer> {
  await buildPage();
  const withPage = { TOWLINE_PAGE_HOST: "127.0.0.1", TOWLINE_PAGE_PORT: "0", TOWLINE_PAGE_TOKEN: pageToken };
  const server = await useTowline(world, { ...withPage, ...extra });
  return { ...server, pageUrl: server.pageUrl ?? "" };
}

/** Opens a location of the page in a browser whose user has just logged in with the token. */
export async function openPage({ pageUrl }: PageServer, place = "") {
  const opened = await useBrowserPage();
  await opened.page.goto(pageUrl + place);
  await opened.page.getByLabel("Page token").fill(pageToken);
  await opened.page.keyboard.press("Enter");
  return opened;
}
