import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;

// Receives callbacks at an address with com.sun.net.httpserver, prints each body as a line, and answers 0000.
class Receiver {
    public static void main(String[] args) throws IOException {
        var server = HttpServer.create(new InetSocketAddress(args[0], Integer.parseInt(args[1])), 0);
        server.createContext("/", exchange -> {
            var callback = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
            System.out.println(callback.replace('\n', ' '));
            var answer = "{\"code\":\"0000\"}".getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "application/json");
            exchange.sendResponseHeaders(200, answer.length);
            try (var body = exchange.getResponseBody()) {
                body.write(answer);
            }
        });
        server.start();
    }
}
