/** The page: login, live updates and the current view. */
import { render } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { PageDeployment, PageForge } from "../src/web/facts.ts";
import { type Access, AccessContext } from "./access.ts";
import { askAccess, listen, logIn, logOut, NoAccessError } from "./api.ts";
import { CommitView } from "./commit.tsx";
import { DeliveriesView } from "./deliveries.tsx";
import { DeploymentView } from "./deployment.tsx";
import { Deployments } from "./deployments.tsx";
import { readPicked, useFact, useRoute } from "./hooks.ts";
import { PullRequestsView, QueueView } from "./lists.tsx";
import { NotificationsView } from "./notifications.tsx";
import { Notice } from "./parts.tsx";
import { PullRequestView } from "./pull-request.tsx";
import { alarmOf } from "./silence.ts";
import { healthOf } from "./health.ts";
import { keyOf, messageOf } from "./words.ts";

type Known = ReadonlyMap<string, PageDeployment>;

const views = [
  ["deployments", "Deployments"],
  ["commit", "Where is my commit?"],
  ["deliveries", "Deliveries"],
  ["pull-requests", "Pull requests"],
  ["queue", "Queue"],
  ["notifications", "Notifications"],
] as const;

/** A link from a comment opens its pull request alone; everything else requires access to the page. */
function Root() {
  const [view, ...place] = useRoute();
  const link = readPicked().get("link");
  if (view !== "pull-requests" || place.length < shortestPlace || link === null) return <Page />;
  return <Linked key={place.join("/")} place={place} link={link} />;
}

/** Forge, two parts of the repository's name, number. */
const shortestPlace = 4;

function Linked({ place, link }: { readonly place: readonly string[]; readonly link: string }) {
  const [refused, setRefused] = useState<NoAccessError | undefined>(undefined);
  useNoAccess(setRefused);
  if (refused) return <Login refused={refused} explains onDone={() => setRefused(undefined)} />;
  return (
    <>
      <header>
        <span class="brand">Towline</span>
        <nav aria-label="Views">
          <a href="#/deployments">All deployments</a>
        </nav>
      </header>
      <main id="main">
        <PullRequestView place={place} link={link} />
      </main>
    </>
  );
}

/** Calls back when a request was rejected because it needs a login. */
function useNoAccess(onLost: (error: NoAccessError) => void): void {
  useEffect(() => {
    const lost = (event: Event) => onLost((event as CustomEvent<NoAccessError>).detail);
    addEventListener("no-access", lost);
    return () => removeEventListener("no-access", lost);
  }, []);
}

function Page() {
  const [refused, setRefused] = useState<NoAccessError | undefined>(undefined);
  const [access, setAccess] = useState<Access | undefined>(undefined);
  const [known, setKnown] = useState<Known | undefined>(undefined);
  const [live, setLive] = useState(true);

  useEffect(() => {
    if (refused) return undefined;
    return listen({
      whole(deployments) {
        setKnown(new Map(deployments.map((one) => [keyOf(one), one])));
      },
      delta({ changed, removed }) {
        setKnown((before) => {
          const after = new Map(before);
          for (const one of changed) after.set(keyOf(one), one);
          for (const key of removed) after.delete(keyOf(key));
          return after;
        });
      },
      state: setLive,
      noAccess: setRefused,
    });
  }, [refused]);
  useEffect(() => {
    if (refused || !known) return;
    askAccess().then(setAccess, () => setAccess(undefined));
  }, [refused, known === undefined]);
  useNoAccess(setRefused);

  if (refused) {
    const begin = () => (setKnown(undefined), setAccess(undefined), setLive(true), setRefused(undefined));
    return <Login refused={refused} onDone={begin} />;
  }
  // The server's response without a login lists the ways to log in again.
  const leave = async () => {
    const elsewhere = await logOut();
    if (elsewhere !== undefined) return location.assign(elsewhere);
    await askAccess().then(setAccess, (error: unknown) =>
      error instanceof NoAccessError ? setRefused(error) : setLive(false),
    );
  };
  return (
    <AccessContext value={access}>
      <Shell known={known} live={live} access={access} onLogOut={() => void leave()} />
    </AccessContext>
  );
}

interface ShellProps {
  readonly known: Known | undefined;
  readonly live: boolean;
  readonly access: Access | undefined;
  readonly onLogOut: () => void;
}

function Shell({ known, live, access, onLogOut }: ShellProps) {
  const [view = "deployments", ...rest] = useRoute();
  const all = useValues(known);
  const failed = useMemo(() => all?.filter((one) => healthOf(one) === "failed").length ?? 0, [all]);
  const { value: forges } = useFact<readonly PageForge[]>("deliveries?newest", 60_000);
  const alarm = forges && alarmOf(forges, Date.now());
  const main = useRef<HTMLElement>(null);
  const place = [view, ...rest].join("/");
  const shown = useRef(place);
  const title = views.find(([id]) => id === view)?.[1] ?? "Towline";
  useEffect(() => {
    // The number of failures is also visible in the browser's tab.
    document.title = `${failed > 0 ? `(${failed}) ` : ""}${rest.length > 0 ? rest.join("/") : title} – Towline`;
  }, [failed, place]);
  useEffect(() => {
    if (shown.current === place) return;
    shown.current = place;
    // Keyboard users continue in the view that was just opened.
    main.current?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [place]);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), main.current?.focus())}>
        Skip to content
      </a>
      <header>
        <span class="brand">Towline</span>
        <nav aria-label="Views">
          {views.map(([id, words]) => (
            <a key={id} href={`#/${id}`} aria-current={id === view ? "page" : undefined}>
              {words}
              {id === "deliveries" && alarm && (
                <span class="badge failed" title={alarm}>
                  ! <span class="unseen">{alarm}</span>
                </span>
              )}
            </a>
          ))}
        </nav>
        {access && <Who access={access} onLogOut={onLogOut} />}
      </header>
      <main id="main" ref={main} tabIndex={-1}>
        <div role="status">
          {!live && (
            <Notice kind="bad">Not live: the server does not respond. The data shown may be out of date.</Notice>
          )}
        </div>
        <View view={view} rest={rest} known={known} all={all} />
      </main>
    </>
  );
}

function Who({ access: { by, name, role }, onLogOut }: { readonly access: Access; readonly onLogOut: () => void }) {
  return (
    <div class="who">
      {name && <span class="breaks">{name}</span>} {role && <span class="quiet">{role}</span>}
      {/* Users authenticated by a proxy have no session to log out of. */}
      {(by === "session" || by === "oidc") && (
        <button type="button" class="quiet-button" onClick={onLogOut}>
          Log out
        </button>
      )}
    </div>
  );
}

interface ViewProps {
  readonly view: string;
  readonly rest: readonly string[];
  readonly known: Known | undefined;
  readonly all: readonly PageDeployment[] | undefined;
}

function View({ view, rest, known, all }: ViewProps) {
  const [first = "", second = ""] = rest;
  switch (view) {
    case "deployments": {
      if (second === "") return <Deployments all={all} />;
      const key = `${first}/${second}`;
      return <DeploymentView key={key} namespace={first} name={second} version={known?.get(key)} />;
    }
    case "commit":
      return <CommitView commit={first} version={0} />;
    case "deliveries":
      return <DeliveriesView />;
    case "pull-requests":
      if (rest.length < shortestPlace) return <PullRequestsView />;
      return <PullRequestView key={rest.join("/")} place={rest} />;
    case "queue":
      return <QueueView known={known} />;
    case "notifications":
      return <NotificationsView />;
    default:
      return (
        <p>
          Page not found. <a href="#/deployments">All deployments</a>
        </p>
      );
  }
}

/** Returns the same array until a deployment changes. */
function useValues(known: Known | undefined): readonly PageDeployment[] | undefined {
  return useMemo(() => known && [...known.values()], [known]);
}

interface LoginProps {
  readonly refused: NoAccessError;
  /** Whether the reason is shown in any case. */
  readonly explains?: boolean;
  readonly onDone: () => void;
}

function Login({ refused: { message, logins }, explains = false, onDone }: LoginProps) {
  return (
    <main class="login">
      <h1>Towline</h1>
      {(explains || (!logins.token && !logins.oidc)) && <p>{message}</p>}
      {logins.oidc && (
        <p>
          <a class="button" href={`/auth/login?then=${encodeURIComponent(location.hash)}`}>
            Log in with your organization's account
          </a>
        </p>
      )}
      {logins.token && <TokenForm isMain={!logins.oidc} onDone={onDone} />}
    </main>
  );
}

function TokenForm({ isMain, onDone }: { readonly isMain: boolean; readonly onDone: () => void }) {
  const [token, setToken] = useState("");
  const field = useRef<HTMLInputElement>(null);
  // If there is another login, most users use that one.
  useEffect(() => void (isMain && field.current?.focus()), []);
  const [problem, setProblem] = useState("");
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        logIn(token).then(onDone, (error: unknown) => setProblem(messageOf(error)));
      }}
    >
      <label for="token">Page token</label>
      <input
        ref={field}
        id="token"
        type="password"
        aria-describedby="token-hint"
        autocomplete="current-password"
        required
        value={token}
        onInput={(event) => setToken(event.currentTarget.value)}
      />
      <p id="token-hint" class="quiet">
        The server's administrator sets it: page.token in the configuration, or the file named by --page-token-file.
      </p>
      <button type="submit" class={isMain ? "main-button" : undefined}>
        Log in
      </button>
      <div role="alert">{problem && <Notice kind="bad">{problem}</Notice>}</div>
    </form>
  );
}

const root = document.getElementById("page");
if (root) render(<Root />, root);
