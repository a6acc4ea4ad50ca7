/** The files in a data folder by which a server and the commands of its machine find each other. */

/** Tells of the server: see `DaemonFacts`. */
export const FACTS_FILE = 'daemon.json';
/** Only the user that runs the server can open it. */
export const SOCKET_FILE = 'daemon.sock';
