/** HTML pages: home, login, errors and API docs. They use no scripts and no other hosts, and escape every text. */

import { accepts } from 'hono/accepts';
import { errorCodes } from '../../protocol/error-codes.ts';
import type { CellaError } from '../../protocol/errors.ts';
import type { OpenApiDocument, Operation } from './openapi.ts';
import type { RequestContext } from './server-context.ts';

const POLICY =
  "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

export const pageHeaders = { 'content-type': 'text/html; charset=utf-8', 'content-security-policy': POLICY } as const;

const STYLE = `
  :root { color-scheme: light dark; }
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 40rem; margin: 2rem auto; padding: 0 1rem; }
  code { font: 14px/1.45 ui-monospace, monospace; overflow-wrap: anywhere; }
`;

/** `title` is plain text, `body` is HTML. */
function pageOf(title: string, body: string, style = STYLE): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${html(title)}</title><style>${style}</style></head><body>
${body}
</body></html>
`;
}

function html(value: unknown): string {
  const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
  return String(value).replaceAll(/[&<>"']/g, (letter) => entities[letter] ?? letter);
}

/** Escapes a text, and turns backticks into code elements. */
function prose(text: string): string {
  return html(text).replaceAll(/`([^`]+)`/g, '<code>$1</code>');
}

export const HOME_PAGE = pageOf(
  'Cella',
  `<h1>Cella</h1>
<p>This is a Cella server. Programs use it with a token: <code>cella run --url ADDRESS</code>, the client
<code>cella/client</code>, or plain HTTP.</p>
<p>In a browser, log in with the link that the server printed when it began, or with one that
<code>cella users login</code> makes. Then <a href="/docs">/docs</a> tells every route, and <a href="/openapi.json">/openapi.json</a> is the same for
programs.</p>`,
);

const LOGIN_FORM = pageOf(
  'Log in · Cella',
  '<h1>Log in to Cella</h1>\n<p>This link works once.</p>\n<form method="post"><button type="submit">Log in</button></form>',
);

export const showLoginPage = {
  body: LOGIN_FORM,
  headers: {
    ...pageHeaders,
    'content-security-policy': pageHeaders['content-security-policy'].replace(
      "form-action 'none'",
      "form-action 'self'",
    ),
    // A stricter policy makes browsers send `Origin: null` with the form. `origin` does not leak the URL with the code.
    'referrer-policy': 'origin',
  },
} as const;

const LOGGED_IN = pageOf(
  'Logged in · Cella',
  '<h1>Logged in</h1>\n<p><a href="/docs">Go on</a> to the documentation.</p>',
);

export const loginPage = { body: LOGGED_IN, headers: { ...pageHeaders, refresh: '0; url=/docs' } } as const;

const errorTitles: Partial<Record<CellaError['code'], string>> = {
  UNAUTHENTICATED: 'Not logged in',
  FORBIDDEN: 'Not allowed',
  NOT_FOUND: 'Not found',
  RATE_LIMITED: 'Too many requests',
  SERVER_STOPPING: 'The server is shutting down',
  INTERNAL: 'Something went wrong',
};

const LOG_IN =
  '`cella users login` prints a link to log in with: it works once, and for 15 minutes. An admin makes one for you with `cella users login NAME`.';

/** Whether the client is a person's browser: programs accept JSON, or anything. */
export function wantsPage(c: RequestContext): boolean {
  // The login form is the only form.
  if (c.env.upgrade || (!['GET', 'HEAD'].includes(c.req.method) && c.get('route') !== '/login')) return false;
  const supports = ['application/json', 'text/html'];
  return accepts(c, { header: 'Accept', supports, default: 'application/json' }) === 'text/html';
}

export function errorPage(error: CellaError, c: RequestContext): string {
  const { code, message, advice } = error;
  const title = errorTitles[code] ?? 'This did not work';
  const lines = [
    `<h1>${html(title)}</h1>`,
    `<p>${prose(message)}</p>`,
    // The default advice is for programs, which have tokens.
    `<p>${prose(code === 'UNAUTHENTICATED' && advice === errorCodes[code].advice ? LOG_IN : advice)}</p>`,
    ...(code === 'UNAUTHENTICATED' ? [wayOn(c)] : []),
    `<p><small>${errorCodes[code].http} ${html(code)}, request <code>${html(c.get('requestId'))}</code></small></p>`,
  ];
  return pageOf(`${title} · Cella`, lines.join('\n'));
}

/** Browsers send the login cookie with this page's own link, but not with links from other sites. */
function wayOn(c: RequestContext): string {
  return c.get('route') === '/login'
    ? '<p>Was it this browser that has used the link? Then it is logged in: <a href="/docs">go on</a>.</p>'
    : '<p>Has this browser logged in before, and did you follow a link to here? Then <a href="">open this address again</a>.</p>';
}

const DOCS_STYLE = `
  :root { color-scheme: light dark; }
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
  code, pre { font: 14px/1.45 ui-monospace, monospace; }
  pre { overflow-x: auto; padding: .75rem; border: 1px solid #8884; border-radius: 6px; }
  details { border: 1px solid #8884; border-radius: 6px; margin: .5rem 0; padding: .5rem .75rem; }
  summary { cursor: pointer; } .method { display: inline-block; min-width: 4rem; font-weight: 600; }
  table { border-collapse: collapse; } td, th { text-align: left; padding: .15rem 1rem .15rem 0; vertical-align: top; }
`;

export function docsPage(document: OpenApiDocument): string {
  const byTag = new Map<string, string[]>();
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const [tag = ''] = operation.tags;
      byTag.set(tag, [...(byTag.get(tag) ?? []), operationHtml(method, path, operation)]);
    }
  }
  const groups = [...byTag].map(([tag, sections]) => `<h2>${html(tag)}</h2>${sections.join('')}`);
  const schemas = Object.entries(document.components.schemas).map(
    ([name, schema]) =>
      `<details id="${html(name)}"><summary><code>${html(name)}</code></summary>${jsonHtml(schema)}</details>`,
  );
  const { title, version, description } = document.info;
  return pageOf(
    `${title} API`,
    `<h1>${html(title)} <small>${html(version)}</small></h1>
<p>${prose(description)} The document itself: <a href="/openapi.json">/openapi.json</a>.</p>
${groups.join('\n')}
<h2>Schemas</h2>${schemas.join('\n')}`,
    DOCS_STYLE,
  );
}

function operationHtml(method: string, path: string, operation: Operation): string {
  const rows = operation.parameters.map(
    ({ name, in: location, required, description }) =>
      `<tr><td><code>${html(name)}</code></td><td>${html(location)}${required ? '' : ', optional'}</td><td>${html(description ?? '')}</td></tr>`,
  );
  const answers = Object.entries(operation.responses).filter(([status]) => status !== 'default');
  return `<details><summary><code><span class="method">${html(method.toUpperCase())}</span> ${html(path)}</code> ${html(operation.summary)}</summary>
<p>${prose(operation.description)}</p>
${rows.length > 0 ? `<table>${rows.join('')}</table>` : ''}
${operation.requestBody ? `<h4>Body</h4>${jsonHtml(operation.requestBody.content)}` : ''}
${operation['x-websocket'] ? `<h4>Frames</h4>${jsonHtml(operation['x-websocket'])}` : ''}
${answers.map(([status, answer]) => `<h4>Answer ${html(status)}</h4>${answer.content ? jsonHtml(answer.content) : html(answer.description)}`).join('')}
</details>`;
}

function jsonHtml(value: unknown): string {
  const text = html(JSON.stringify(value, null, 2));
  return `<pre>${text.replaceAll(/#\/components\/schemas\/(\w+)/g, '<a href="#$1">$&</a>')}</pre>`;
}
