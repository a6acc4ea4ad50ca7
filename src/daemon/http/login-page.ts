/**
 * What a browser gets that has just logged in: a page that leads on to the documentation by itself.
 *
 * Browsers hold a same-site cookie back from a redirect that began at another site, such as a link in a chat or a mail;
 * they send it where a page of the server's own leads on.
 */

import { pageHeaders, pageOf } from './page.ts';

const PAGE = pageOf('Logged in · Cella', '<h1>Logged in</h1>\n<p><a href="/docs">Go on</a> to the documentation.</p>');

export const loginPage = { body: PAGE, headers: { ...pageHeaders, refresh: '0; url=/docs' } } as const;
