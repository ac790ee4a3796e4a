import java.io.*;
import org.apache.http.client.methods.HttpPost;
import org.apache.http.entity.*;
import org.apache.http.impl.client.HttpClients;
import org.apache.http.util.EntityUtils;

// Posts each line "URL BODY" with Apache HttpClient 4. Prints "STATUS REPLY", or "error" and what was thrown.
class HttpClient4 {
    public static void main(String[] args) throws IOException {
        var client = HttpClients.createDefault();
        var in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            var call = line.split(" ", 2);
            var post = new HttpPost(call[0]);
            post.setEntity(new StringEntity(call[1], ContentType.APPLICATION_JSON));
            try (var reply = client.execute(post)) {
                var text = EntityUtils.toString(reply.getEntity());
                System.out.println(reply.getStatusLine().getStatusCode() + " " + text.replace('\n', ' '));
            } catch (Exception e) {
                System.out.println("error " + e.toString().replace('\n', ' '));
            }
        }
    }
}
